"""Execution providers: which there are, and what a program that asks for some gets.

There are two, and both are minicc's machine code: `MiniccExecutionProvider` takes options of
minicc (`math`, `target`, `threads`, `spin`, `cache_dir`, `memory_limit`), `CPUExecutionProvider` is
what programs ask for. As in ONNX Runtime's package for CPUs, another one that ONNX Runtime knows is
left out with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from minicc.errors import UserError
from minicc.onnxruntime.log import tell_once

CPU = "CPUExecutionProvider"
MINICC = "MiniccExecutionProvider"
AVAILABLE = (MINICC, CPU)
# from the fastest to the one that is always there, as ONNX Runtime orders them
KNOWN = (
    "NvTensorRTRTXExecutionProvider", "TensorrtExecutionProvider", "CUDAExecutionProvider",
    "MIGraphXExecutionProvider", "ROCMExecutionProvider", "OpenVINOExecutionProvider",
    "DnnlExecutionProvider", "VitisAIExecutionProvider", "QNNExecutionProvider",
    "NnapiExecutionProvider", "VSINPUExecutionProvider", "JsExecutionProvider",
    "CoreMLExecutionProvider", "ACLExecutionProvider", "DmlExecutionProvider",
    "RknpuExecutionProvider", "WebNNExecutionProvider", "WebGpuExecutionProvider",
    "XnnpackExecutionProvider", "CANNExecutionProvider", "AzureExecutionProvider", *AVAILABLE,
)  # fmt: skip

Chosen = dict[str, dict[str, str]]


def get_available_providers() -> list[str]:
    """The execution providers that a session may use."""
    return list(AVAILABLE)


def get_all_providers() -> list[str]:
    """The execution providers whose names are known, here or not, in their order."""
    return list(KNOWN)


def choose(providers: object, options: object) -> Chosen:
    """The execution providers of a session with their options; the CPU's is always the last.

    Warns of those that are not here. ValueError for arguments of another form than names, or pairs
    of a name and a dict; RuntimeError for a name that nobody knows.
    """
    asked = {} if providers is None else _normal(providers, options)
    for name in asked:
        if name not in KNOWN:
            raise RuntimeError(f"no execution provider is called {name}")
    chosen = {name: given for name, given in asked.items() if name in AVAILABLE}
    for name in chosen.get(CPU, {}):
        tell_once(f"the option {name} of {CPU}")
    return chosen | {CPU: {}}


def _normal(providers: object, options: object) -> Chosen:
    """Names with options; a name that is not here, or comes twice, gets a warning."""
    if not isinstance(providers, Sequence):
        raise ValueError(f"providers is {providers!r}, and must be a list")
    if options is None:
        pairs = [_pair(provider) for provider in providers]
    else:
        if not isinstance(options, Sequence) or len(options) != len(providers):
            raise ValueError("provider_options must be a list with a dict for each provider")
        if not all(isinstance(name, str) for name in providers):
            raise ValueError("providers must be names where provider_options are given")
        if not all(isinstance(given, dict) for given in options):
            raise ValueError("provider_options must be a list of dicts")
        pairs = list(zip(providers, options, strict=True))
    found: Chosen = {}
    for name, given in pairs:
        if name not in AVAILABLE:
            here = ", ".join(AVAILABLE)
            warnings.warn(
                f"the execution provider {name!r} is not available; available are: {here}",
                stacklevel=2,
            )
        if name in found:
            warnings.warn(f"the execution provider {name!r} is named twice", stacklevel=2)
            continue
        found[name] = {str(key): str(value) for key, value in given.items()}
    return found


def _pair(provider: object) -> tuple[str, Mapping[Any, Any]]:
    if isinstance(provider, str):
        return provider, {}
    if isinstance(provider, tuple) and len(provider) == 2:
        name, given = provider
        if isinstance(name, str) and isinstance(given, dict):
            return name, given
    raise ValueError(f"a provider is {provider!r}, and must be a name or (name, dict)")


def options_from(chosen: Chosen) -> dict[str, Any]:
    """The options of minicc that `MiniccExecutionProvider` was given; UserError for a bad value."""
    given: dict[str, Any] = {}
    for name, text in chosen.get(MINICC, {}).items():
        if name in ("threads", "memory_limit"):
            given[name] = int(text) if text.isdecimal() else text
        elif name == "spin":
            if text not in ("0", "1", "True", "False"):
                raise UserError("MC0101", f"spin is {text!r}, and must be 0 or 1")
            given[name] = text in ("1", "True")
        elif name == "cache_dir":
            given[name] = False if text in ("", "off", "False") else text
        else:
            given[name] = text
    return given
