"""Passes over the program level: memory, shares and barriers."""
