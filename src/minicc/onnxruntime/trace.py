"""The profile of a session: when it was opened and run, and how long each kernel takes.

`end_profiling` writes the events in Chrome's format, which ONNX Runtime's profile has too. Kernels
are measured when the profile ends, one after the other on one thread, with the inputs of the last
run; they have a row of their own, since in a run several threads share them.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minicc.onnxruntime.errors import InvalidArgument, status
from minicc.onnxruntime.providers import MINICC

if TYPE_CHECKING:
    from minicc.compile.profile import LaunchTime


class Trace:
    """Events of a session; times are microseconds since it was begun."""

    def __init__(self, prefix: str) -> None:
        self.began = time.monotonic_ns()
        moment = time.time()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(moment))
        self.path = f"{prefix}_{stamp}_{int(moment * 1000) % 1000:03}.json"
        self._events: list[dict[str, Any]] = []

    def add(self, name: str, start: int, end: int) -> None:
        """Add a stretch of the session's time, in nanoseconds of the monotonic clock."""
        self._events.append(
            _event("Session", name, (start - self.began) // 1000, (end - start) // 1000, {})
        )

    def add_launches(self, launches: Sequence[LaunchTime], runs: str) -> None:
        """Add the launches that were measured, from the start of the last run on."""
        at = max((e["ts"] for e in self._events if e["name"] == runs), default=0)
        for launch in launches:
            taken = round(launch.seconds * 1e6)
            args = {
                "op_name": launch.kernel,
                "provider": MINICC,
                "nodes": list(launch.sources),
                "points": str(launch.work),
            }
            event = _event("Node", f"{launch.kernel}_kernel_time", at, taken, args)
            self._events.append(event | {"tid": 0})
            at += taken

    def write(self) -> str:
        """Write the file, and return its name; InvalidArgument where it can't be written."""
        try:
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump(self._events, file, indent=0)
        except OSError as error:
            text = f"the profile can't be written to {self.path}: {error.strerror}"
            raise status(InvalidArgument, text) from error
        return self.path


def _event(kind: str, name: str, start: int, taken: int, args: dict[str, Any]) -> dict[str, Any]:
    thread = threading.get_native_id()
    where = {"cat": kind, "pid": os.getpid(), "tid": thread, "dur": taken, "ts": start, "ph": "X"}
    return where | {"name": name, "args": args}
