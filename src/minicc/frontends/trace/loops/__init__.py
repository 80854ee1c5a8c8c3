"""Python's loops as loops of the graph: how they are found, recorded, and closed."""
