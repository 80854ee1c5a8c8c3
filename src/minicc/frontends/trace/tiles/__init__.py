"""Kernels by hand: a Python function over tiles becomes a kernel, as Triton and Pallas have it.

The function runs once, on buffers and indices that stand for what an instance of the grid has
(`language`, `tile`, `memory`, `numbers`); what it does is recorded as ops of the kernel level
(`recording`). `for` over `tl.range` is a loop (`loops`), which the code of the function tells of.
A `KernelFunction` is one such function, with its grid and the types of its outputs.
"""
