"""Passes over the structured level; each module is one pass or the tables that it applies."""
