"""What programs do with ONNX Runtime, call by call; each probe takes the module and gives a value.

`outcome` is a text that is equal where two modules behave alike: the value, or the class of the
exception, and the categories of warnings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.onnxruntime.models import pair

Probe = Callable[..., Any]
PROBES: dict[str, Probe] = {}
CPU = ["CPUExecutionProvider"]


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


def add(name: str, function: Probe) -> None:
    assert name not in PROBES
    PROBES[name] = function


def outcome(ort: Any, function: Probe) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            text = shown(function(ort))
        except Exception as error:
            text = f"raises {type(error).__name__}"
    kinds = sorted({w.category.__name__ for w in caught if w.category is UserWarning})
    return " ".join([text, *(f"warns {kind}" for kind in kinds)])


def shown(value: Any) -> str:
    """A value as text, the same for arrays that are equal."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}{value.tolist()}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{k}: {shown(v)}' for k, v in sorted(value.items()))})"
    if value is None or isinstance(value, str | int | float | bool | bytes):
        return str(value) if isinstance(value, int) else repr(value)
    return type(value).__name__


def session(ort: Any, data: Any = None, **more: Any) -> Any:
    return ort.InferenceSession(pair() if data is None else data, **more)


def args(found: Any) -> list[Any]:
    return [(a.name, list(a.shape), a.type) for a in found]


def running(name: str, data: bytes, *call: Any) -> None:
    add(name, lambda ort: session(ort, data).run(*call))
