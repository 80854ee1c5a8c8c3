"""What tells of the line that it was called at: warnings, and records of a log.

A compiled call has no frame of the user's function, so the line is found while the function is
traced. A warning may be told of a caller of the function, who is another one at each call.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from minicc.frontends.trace.host import on_host
from minicc.frontends.trace.paths import CALLERS
from minicc.frontends.trace.recorder import Recorder

_OWN = __name__.partition(".")[0]
_REASON = "others see what it does"


def _frames(frame: types.FrameType | None, skipped: tuple[str, ...]) -> list[types.FrameType]:
    """A frame and those around it that are the user's or a library's; some files are skipped."""
    found: list[types.FrameType] = []
    while frame is not None:
        own = str(frame.f_globals.get("__name__")).partition(".")[0] == _OWN
        if not own and not (found and frame.f_code.co_filename.startswith(skipped)):
            found.append(frame)
        frame = frame.f_back
    return found


def _traced(recorder: Recorder, frames: list[types.FrameType]) -> int:
    """How many of the frames lie within the function that is traced."""
    traced = [k for k, f in enumerate(frames) if id(f.f_globals) in recorder.user_globals]
    return traced[-1] + 1 if traced else 0


def warned(
    recorder: Recorder,
    message: Any,
    category: Any = None,
    stacklevel: int = 1,
    source: Any = None,
    *,
    skip_file_prefixes: tuple[str, ...] = (),
) -> None:
    """`warnings.warn`, at each call, for the line that it tells of."""
    scopes = recorder.user_globals
    # what runs in a scope that stands for itself is a loop in the place of a comprehension
    frames = [f for f in _frames(sys._getframe(1), skip_file_prefixes)
              if scopes.get(id(f.f_globals)) is not f.f_globals]  # fmt: skip
    level = max(stacklevel, 2 if skip_file_prefixes else 1) - 1
    named = {} if source is None else {"source": source}
    within = _traced(recorder, frames)
    known = recorder.path is None or level < within
    if known:
        frame = frames[min(level, len(frames) - 1)]
        scope = scopes.get(id(frame.f_globals), frame.f_globals)
        warn: Callable[..., None] = partial(_warn, scope)
        place: tuple[Any, ...] = frame.f_code.co_filename, frame.f_lineno
    else:
        warn = partial(_warn_around, skip_file_prefixes)
        place = (level - within,)
    args = (*place, message, category)
    if recorder.path is None:
        warn(*args, **named)
    else:
        on_host(recorder, "print" if known else CALLERS, warn, args, named, _REASON)


def _warn(
    scope: dict[str, Any], file: str, line: int, message: Any, category: Any, **named: Any
) -> None:
    registry = scope.setdefault("__warningregistry__", {})  # what was told there already
    module = scope.get("__name__") or "<string>"
    kind = UserWarning if category is None else category
    warnings.warn_explicit(message, kind, file, line, module, registry, **named)


def _warn_around(skipped: tuple[str, ...], level: int, *args: Any, **named: Any) -> None:
    """Warn of the line of a caller of the compiled function: the first, or one around it."""
    frames = _frames(sys._getframe(1), skipped)
    if level >= len(frames):  # which Python says of what nobody calls
        _warn(vars(sys), "sys", 1, *args, **named)
    else:
        frame = frames[level]
        _warn(frame.f_globals, frame.f_code.co_filename, frame.f_lineno, *args, **named)


def written(recorder: Recorder, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call that others see, at each call; at once where a trace runs nothing."""
    if recorder.path is None:
        return function(*args, **kwargs)
    owner = getattr(function, "__self__", None)
    logs = isinstance(owner, (logging.Logger, logging.LoggerAdapter))
    frame = recorder.frame()
    if frame is not None and (logs or getattr(function, "__module__", "") == "logging"):
        scope = recorder.user_globals[id(frame.f_globals)]
        args = (frame.f_code.co_filename, frame.f_lineno, *args)
        function = partial(_call_from, scope, frame.f_code.co_name, function)
    return on_host(recorder, "print", function, args, kwargs, _REASON)


def _call_from(
    scope: dict[str, Any],
    name: str,
    function: Callable[..., Any],
    file: str,
    line: int,
    *args: Any,
    **named: Any,
) -> Any:
    """Call a function that looks for the line of who calls it."""
    return types.FunctionType(_caller(file, line, name), scope)(function, args, named)


@lru_cache(256)
def _caller(file: str, line: int, name: str) -> types.CodeType:
    code = (lambda function, args, named: function(*args, **named)).__code__
    return code.replace(co_filename=file, co_firstlineno=line, co_name=name, co_qualname=name)
