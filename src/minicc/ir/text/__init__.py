"""The text of the IR: printed, and read back bit for bit."""
