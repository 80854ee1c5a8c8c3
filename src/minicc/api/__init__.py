"""What people call: sessions, jitted functions, kernels by hand, and what they are given."""
