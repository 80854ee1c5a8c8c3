"""ir: see the modules within."""
