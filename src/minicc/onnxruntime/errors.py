"""ONNX Runtime's exceptions, and which of them stands for an error of minicc.

The class is the one that ONNX Runtime raises in the same place; the text is minicc's, after
ONNX Runtime's number and name of the class. The error of minicc is its cause.
"""

from __future__ import annotations

from minicc.errors import CompilerBug, MiniccError, UnsupportedError

_MODULE = f"{__package__}.capi.onnxruntime_pybind11_state"


class Fail(Exception):
    """A failure that no other class names."""


class InvalidArgument(Exception):
    """An input, output, option or graph is not what the call wants."""


class NoSuchFile(Exception):
    """There is no file at a model's path."""


class NoModel(Exception):
    """A session holds no model."""


class EngineError(Exception):
    """An engine below ONNX Runtime failed."""


class RuntimeException(Exception):
    """A failure in the midst of a run."""


class InvalidProtobuf(Exception):
    """Bytes that are no ONNX model."""


class ModelLoaded(Exception):
    """A session holds a model already."""


class NotImplemented(Exception):
    """A valid model that can't be run here."""


class InvalidGraph(Exception):
    """A graph that ONNX's specification forbids."""


class EPFail(Exception):
    """An execution provider failed."""


class ModelLoadCanceled(Exception):
    """Loading a model was called off."""


class ModelRequiresCompilation(Exception):
    """A model that may only be opened compiled."""


class NotFound(Exception):
    """Something that was named is not there."""


class DeviceReset(Exception):
    """A device was reset under a session."""


# onnxruntime's numbers of a status
_STATUS: dict[type[Exception], tuple[int, str]] = {
    Fail: (1, "FAIL"),
    InvalidArgument: (2, "INVALID_ARGUMENT"),
    NoSuchFile: (3, "NO_SUCHFILE"),
    NoModel: (4, "NO_MODEL"),
    EngineError: (5, "ENGINE_ERROR"),
    RuntimeException: (6, "RUNTIME_EXCEPTION"),
    InvalidProtobuf: (7, "INVALID_PROTOBUF"),
    ModelLoaded: (8, "MODEL_LOADED"),
    NotImplemented: (9, "NOT_IMPLEMENTED"),
    InvalidGraph: (10, "INVALID_GRAPH"),
    EPFail: (11, "EP_FAIL"),
    ModelLoadCanceled: (12, "MODEL_LOAD_CANCELED"),
    ModelRequiresCompilation: (13, "MODEL_REQUIRES_COMPILATION"),
    NotFound: (14, "NOT_FOUND"),
    DeviceReset: (15, "DEVICE_RESET"),
}
for _class in _STATUS:
    # what a program prints or pickles names the module that it imports them from
    _class.__module__ = _MODULE

# what is no `Fail` while a model is opened, and while it runs
_OPENING: dict[str, type[Exception]] = {
    "MC0101": InvalidArgument,
    "MC0102": InvalidArgument,
    "MC0120": InvalidProtobuf,
    "MC0121": InvalidArgument,
    "MC0122": InvalidProtobuf,
    "MC0123": InvalidProtobuf,
    "MC0127": InvalidGraph,
    "MC0130": InvalidArgument,
    "MC0137": InvalidArgument,
    "MC0144": InvalidArgument,
    "MC0160": InvalidProtobuf,
    "MC0162": InvalidProtobuf,
}
# a valid model is refused by `NotImplemented`, but for what ONNX Runtime does not know either:
# attributes, types, opsets, and the data beside a model that is given as bytes
_REFUSED: dict[str, type[Exception]] = {
    "MC0221": InvalidGraph,
    "MC0222": Fail,
    "MC0224": Fail,
    "MC0226": Fail,
}
# wrong inputs, and indices out of range; sizes that do not fit are a `Fail`
_WRONG_INPUTS = frozenset(
    ("MC0107", "MC0108", "MC0109", "MC0140", "MC0141", "MC0143", "MC0148", "MC0158")
)


def status(kind: type[Exception], text: str) -> Exception:
    """An exception with ONNX Runtime's number and name of its kind before the text."""
    number, name = _STATUS[kind]
    return kind(f"[ONNXRuntimeError] : {number} : {name} : {text}")


def opening_error(error: MiniccError, missing: bool) -> Exception:
    """What ONNX Runtime raises where a model can't be opened.

    `missing` says whether there is no file at the model's path.
    """
    if isinstance(error, CompilerBug):
        return status(RuntimeException, str(error))
    if isinstance(error, UnsupportedError):
        return status(_REFUSED.get(error.code, NotImplemented), str(error))
    if missing and error.code in ("MC0120", "MC0162"):
        return status(NoSuchFile, str(error))
    return status(_OPENING.get(error.code, Fail), str(error))


def running_error(error: MiniccError) -> Exception:
    """What ONNX Runtime raises where a run fails."""
    if isinstance(error, CompilerBug):
        return status(RuntimeException, str(error))
    if isinstance(error, UnsupportedError):
        return status(NotImplemented, str(error))
    return status(InvalidArgument if error.code in _WRONG_INPUTS else Fail, str(error))
