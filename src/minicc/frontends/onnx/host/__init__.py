"""Nodes that run on the host, between the compiled segments of a program."""
