"""Runs workers of all kinds for a while, ends those that hang, and keeps the score."""

from __future__ import annotations

import contextlib
import json
import queue
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SECONDS = {"model": 120.0, "hostile": 10.0, "function": 120.0}
_STARTING = 60.0  # a worker imports all engines first
BYTES = 2 << 30  # what opening and running a hostile file may take
_SLICE = 120.0  # seconds before the next kind has its turn; a worker starts anew then


class _Worker:
    """A process that judges seed after seed, and the lines that it writes."""

    def __init__(self, kind: str, first: int, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.generate", "work", str(first), "--kind", kind]
        limit = (lambda: resource.setrlimit(resource.RLIMIT_DATA, (4 * BYTES, 4 * BYTES))) if (
            kind == "hostile"
        ) else None  # fmt: skip
        self.process = subprocess.Popen(
            [*command, "--folder", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=limit,
        )
        self._before = 0
        self.lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"{"):
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def end(self) -> int:
        self.process.kill()
        return self.process.wait()

    def begin(self) -> None:
        """Begin to count the memory that a case takes, which is what earlier ones do not hold."""
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")
        self._before = self._memory("VmRSS")

    def taken(self) -> int:
        """The most memory that the case took, in bytes; 0 where the system does not say."""
        return self._memory("VmHWM") - self._before

    def _memory(self, name: str) -> int:
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return 0
        found = [line.split()[1] for line in status.splitlines() if line.startswith(name)]
        return int(found[0]) << 10 if found else 0


class _Score:
    """The next seed of each kind, and what was found; kept in the folder."""

    def __init__(self, folder: Path, first: int | None) -> None:
        self._path = folder / "state.json"
        self.next = dict.fromkeys(SECONDS, 0)
        if first is not None:
            self.next = dict.fromkeys(self.next, first)
        elif self._path.exists():
            self.next.update(json.loads(self._path.read_text(encoding="utf-8")))
        self.judged = dict.fromkeys(self.next, 0)
        self.found = dict.fromkeys(self.next, 0)

    def done(self, kind: str, seed: int, found: list[str]) -> None:
        self.next[kind] = seed + 1
        self.judged[kind] += 1
        self.found[kind] += bool(found)
        for text in found:
            print(f"{kind} {seed}: {text}", flush=True)
        self._path.write_text(json.dumps(self.next), encoding="utf-8")


def supervise(
    folder: Path, seconds: float, first: int | None, kinds: Sequence[str] = tuple(SECONDS)
) -> int:
    """Run these kinds in turns for so long; 1 where anything was found, else 0."""
    folder.mkdir(parents=True, exist_ok=True)
    score = _Score(folder, first)
    seeds = " and ".join(f"{score.next[kind]} ({kind})" for kind in kinds)
    print(f"seeds from {seeds}; findings are written to {folder}", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for kind in kinds:
            _turn(kind, score, folder, min(end, time.monotonic() + _SLICE))
    for kind in kinds:
        print(f"{kind}: {score.judged[kind]} judged, {score.found[kind]} with findings")
    return int(any(score.found.values()))


def _turn(kind: str, score: _Score, folder: Path, end: float) -> None:
    """One worker until the time is over, or it crashes, hangs or takes too much."""
    worker = _Worker(kind, score.next[kind], folder)
    patience, current, judged = _STARTING, None, 0
    try:
        # a short turn still judges one
        while time.monotonic() < end or not judged:
            try:
                line = worker.lines.get(timeout=patience)
            except queue.Empty:
                if current is not None:
                    score.done(kind, current, [f"no answer after {patience:.0f} seconds"])
                return
            if line is None:
                if current is not None:
                    status = worker.process.wait()
                    score.done(kind, current, [f"the process ended with status {status}"])
                return
            current, patience = line["seed"], SECONDS[kind]
            if "found" in line:
                found = list(line["found"])
                taken = worker.taken()
                if kind == "hostile" and taken > BYTES:
                    found.append(f"{taken >> 20} MiB of memory")
                score.done(kind, current, found)
                current, judged = None, judged + 1
            else:
                worker.begin()
    finally:
        worker.end()
