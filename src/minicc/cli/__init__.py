"""cli: see the modules within."""
