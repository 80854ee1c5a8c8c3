"""How a session is opened: from ONNX Runtime's options to minicc's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from minicc.errors import MiniccError
from minicc.ir.types import OPAQUE
from minicc.later import Later
from minicc.onnxruntime.editing import with_initialisers
from minicc.onnxruntime.environment import ENVIRONMENT, told_threads
from minicc.onnxruntime.errors import (
    Fail,
    InvalidGraph,
    ModelLoadCanceled,
    opening_error,
    status,
)
from minicc.onnxruntime.log import tell_once
from minicc.onnxruntime.providers import Chosen, options_from
from minicc.onnxruntime.settings import SessionOptions
from minicc.options import MOST_THREADS, Options
from minicc.runtime.programs import is_program
from minicc.runtime.saved import Facts

if TYPE_CHECKING:
    from minicc.frontends.onnx.model import reader
else:
    reader = Later("minicc.frontends.onnx.model.reader")

_NO_OPERATOR = "MC0220"
_CONTRIBUTED = ("com.microsoft", "com.microsoft.nchwc")  # domains that ONNX Runtime adds
_SPIN = "session.intra_op.allow_spinning"
_DENORMALS = "session.set_denormal_as_zero"
_FOLDER = "session.model_external_initializers_file_folder_path"
_ARENA = "session.use_env_allocators"


def require_source(given: object) -> str | bytes:
    """A path as a text, or a model's bytes; TypeError for anything else."""
    if isinstance(given, bytes):
        return given
    if isinstance(given, str | os.PathLike) and given != "":
        return os.fsdecode(given)
    known = hasattr(given, "SerializeToString")
    hint = "give model.SerializeToString()" if known else "give a path or bytes"
    raise TypeError(f"a model can't be opened from a {type(given).__name__}: {hint}")


def options_for(asked: SessionOptions, chosen: Chosen, source: str | bytes) -> Options:
    """The options of minicc for those of a session and of its execution providers.

    ModelLoadCanceled where that was asked for; errors of minicc for bad values, and for a model
    that can't be read where dimensions are to be bound.
    """
    if asked._cancelled:
        raise status(ModelLoadCanceled, "the options say that no model be loaded")
    asked._tell()
    given: dict[str, Any] = {}
    threads = asked.intra_op_num_threads
    if not asked.use_per_session_threads:
        threads = ENVIRONMENT.threads
    if threads > 0:
        given["threads"] = told_threads(threads, MOST_THREADS)
    if _SPIN in asked._entries:
        given["spin"] = asked._entries[_SPIN] != "0"
    if _DENORMALS in asked._entries:
        given["keep_denormals"] = asked._entries[_DENORMALS] != "1"
    if asked._entries.get(_ARENA) == "1" and ENVIRONMENT.arena_bytes:
        given["memory_limit"] = ENVIRONMENT.arena_bytes
    if asked._by_name or asked._by_denotation:
        given["sizes"] = _sizes(source, asked._by_name, asked._by_denotation)
    return Options(**(given | options_from(chosen)))


def with_given_data(source: str | bytes, asked: SessionOptions) -> str | bytes:
    """The model with initialisers, or their files' bytes, that the options give; else as it is.

    Errors as of reading the model.
    """
    folder = asked._entries.get(_FOLDER) if isinstance(source, bytes) else None
    if not (asked._initialisers or asked._files or folder is not None):
        return source
    reader.read_model(source)
    arrays = {name: value.numpy() for name, value in asked._initialisers.items()}
    return with_initialisers(source, arrays, files=asked._files, folder=folder)


def _sizes(
    source: str | bytes, by_name: Mapping[str, int], by_denotation: Mapping[str, int]
) -> dict[str, int]:
    """Numbers for the free dimensions that a model has; others are not looked at."""
    if is_program(source):
        tell_once("a number for a free dimension of a compiled program")
        return {}
    read = reader.read_model(source)
    sizes: dict[str, int] = {}
    denoted = read.about["denotations"]
    for name, type in read.inputs:
        for axis, extent in enumerate(() if type is None else type.shape):
            if isinstance(extent, int):
                continue
            symbol = str(extent)
            size = by_name.get(symbol)
            if size is None:
                size = by_denotation.get(denoted.get(name, {}).get(str(axis), ""))
            if size is not None:
                sizes[symbol] = size
    return sizes


def refused(error: MiniccError, source: str | bytes) -> Exception:
    """What ONNX Runtime raises for a model that minicc can't open.

    Of an operator that minicc lacks: InvalidGraph where ONNX has none of that name, Fail where its
    domain is nobody's, else NotImplemented.
    """
    missing = isinstance(source, str) and not os.path.exists(source)
    if any(part.code == _NO_OPERATOR for part in error.parts):
        kind = _kind_of(source)
        if kind is not None:
            return status(kind, str(error))
    return opening_error(error, missing)


def require_declared(facts: Facts) -> None:
    """Fail where an output has another element type than the model declares."""
    for name, type in facts.outputs:
        said = facts.declared.get(name, ([], "", ""))[2]
        if type is not None and type.dtype is not OPAQUE and said not in ("", type.dtype.name):
            text = f"the output {name} has the type {type.dtype}, and the model declares {said}"
            raise status(Fail, text)


def _kind_of(source: str | bytes) -> type[Exception] | None:
    import onnx

    domains = {schema.domain for schema in onnx.defs.get_all_schemas()}
    for node in reader.read_model(source).nodes:
        domain, _, name = node.op.rpartition(".")
        if domain not in domains and domain not in _CONTRIBUTED:
            return Fail
        if domain in domains and not onnx.defs.has(name, domain):
            return InvalidGraph
    return None
