"""runtime: see the modules within."""
