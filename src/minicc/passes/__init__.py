"""passes: see the modules within."""
