"""Loops over whole tensors.

Mirrors: ONNX's Scan, JAX's `lax.scan`, StableHLO's while with its trip count known.
"""

from minicc.ir.scan import Scanning


class Scan(Scanning, name="graph.scan"):
    """Run the body `count` times, hand on its states, and stack its rows; see `ir.scan`."""
