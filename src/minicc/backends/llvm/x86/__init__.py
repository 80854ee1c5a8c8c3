"""All that is said of x86-64 below the level of kernels: its instructions and its modes."""
