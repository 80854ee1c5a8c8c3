"""A line on a terminal's standard error while something takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import click

_PATIENCE_S, _EVERY_S = 2.0, 0.25
_CLEAR = "\r\x1b[2K"
JSON = "minicc.json"  # where a context's meta says that JSON is asked for


class Progress:
    """What is done at present, shown with its seconds; nothing in pipes and none with `--json`.

    Output that is written meanwhile belongs into `aside()`.
    """

    def __init__(self, what: str) -> None:
        context = click.get_current_context(silent=True)
        quiet = context is not None and bool(context.meta.get(JSON))
        self._what = what
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._shown = False
        if not quiet and sys.stderr.isatty():
            self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def at(self, what: str) -> None:
        """Say what is done from now on."""
        self._what = what

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A block that prints, without the line."""
        with self._lock:
            self._write("")
            yield

    def _write(self, text: str) -> None:
        """Write the line in place of the last one; "" takes that away."""
        if text or self._shown:
            sys.stderr.write(_CLEAR + text)
            sys.stderr.flush()
        self._shown = bool(text)

    def _run(self) -> None:
        shown = self._ended.wait(_PATIENCE_S)
        while not shown:
            with self._lock:
                self._write(f"{self._what}, {time.monotonic() - self._began:.0f} s")
            shown = self._ended.wait(_EVERY_S)
        with self._lock:
            self._write("")
