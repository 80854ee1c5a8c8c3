"""NumPy's functions, a module a family: which ops of the graph each is."""
