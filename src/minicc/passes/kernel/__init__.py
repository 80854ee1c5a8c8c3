"""Passes over the kernel level; each module is one pass or the tables that it applies."""
