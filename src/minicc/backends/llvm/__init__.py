"""llvm: see the modules within."""
