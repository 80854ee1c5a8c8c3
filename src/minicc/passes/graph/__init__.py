"""Passes over the graph level; each module is one pass or the tables that it applies."""
