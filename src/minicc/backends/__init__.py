"""backends: see the modules within."""
