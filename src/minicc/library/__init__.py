"""What is composed of graph ops, written once for all front ends."""
