"""Functions of ONNX Runtime that pack weights for its quantisers, which import them by name."""

from __future__ import annotations

from typing import Any, NoReturn

from minicc.onnxruntime.errors import NotImplemented as NotThere
from minicc.onnxruntime.errors import status


def _refuse(name: str) -> NoReturn:
    text = f"{name} packs weights with ONNX Runtime's own code"
    raise status(NotThere, f"{text}: quantise without minicc in its place, and run the result here")


def quantize_matmul_2bits(*_: Any) -> None:
    """Refuse to pack weights of two bits: NotImplemented."""
    _refuse("quantize_matmul_2bits")


def quantize_matmul_4bits(*_: Any) -> None:
    """Refuse to pack weights of four bits: NotImplemented."""
    _refuse("quantize_matmul_4bits")


def quantize_matmul_8bits(*_: Any) -> None:
    """Refuse to pack weights of eight bits: NotImplemented."""
    _refuse("quantize_matmul_8bits")


def quantize_matmul_bnb4(*_: Any) -> None:
    """Refuse to pack weights of the types NF4 and FP4: NotImplemented."""
    _refuse("quantize_matmul_bnb4")


def quantize_qdq_matmul_4bits(*_: Any) -> None:
    """Refuse to pack weights of four bits for DequantizeLinear: NotImplemented."""
    _refuse("quantize_qdq_matmul_4bits")
