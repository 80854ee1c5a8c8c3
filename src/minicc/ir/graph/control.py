"""Loops and branches over whole tensors.

Mirrors: ONNX's Scan, JAX's `lax.scan`, StableHLO's while with its trip count known; ONNX's If.
"""

from minicc.ir.branch import Branching
from minicc.ir.scan import Scanning


class Scan(Scanning, name="graph.scan"):
    """Run the body `count` times, hand on its states, and stack its rows; see `ir.scan`."""


class If(Branching, name="graph.if"):
    """Run one of two regions, as a condition says; see `ir.branch`."""
