"""The logger of this package; what has no meaning for minicc is told there, each thing once."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("minicc.onnxruntime")

# ONNX Runtime's severities in their order
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_told: set[str] = set()


def tell_once(what: str) -> None:
    """Log at level info that something is accepted and changes nothing, the first time alone."""
    if what not in _told:
        _told.add(what)
        LOGGER.info("%s is accepted and changes nothing with minicc", what)


def set_default_logger_severity(severity: int) -> None:
    """Set the least severity that is logged: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.

    Sets the level of the logger `minicc.onnxruntime`. RuntimeError for another number.
    """
    if not 0 <= (number := whole(severity, "the severity")) < len(_LEVELS):
        raise RuntimeError(f"the severity is {severity}, and must be from 0 (verbose) to 4 (fatal)")
    LOGGER.setLevel(_LEVELS[number])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accept how much is logged at severity 0; minicc has no degrees of that."""
    whole(verbosity, "the verbosity")
    tell_once("the logger's verbosity")


def whole(value: object, what: str) -> int:
    """A whole number of 32 bits, as ONNX Runtime takes them; TypeError for anything else."""
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{what} is {value!r}, and must be a whole number")
    number: int = value.__index__()  # type: ignore[attr-defined]  # looked at above
    if not -(1 << 31) <= number < 1 << 31:
        raise TypeError(f"{what} is {value!r}, and must fit in 32 bits")
    return number
