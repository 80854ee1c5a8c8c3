"""Generators of random numbers, whose draws are traced with NumPy's own bits."""
