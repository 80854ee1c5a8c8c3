"""A model's file: read with care, checked, and told about; nothing here makes ops of the graph."""
