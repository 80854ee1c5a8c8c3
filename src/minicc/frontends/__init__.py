"""frontends: see the modules within."""
