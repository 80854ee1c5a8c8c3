"""An interrupt at any moment of a run, or of a compilation, leaves all usable."""

import os
import subprocess
import sys

import pytest
from tests.sweeps import part

# Children of one process are interrupted, each elsewhere, and then run again. A child that hangs is
# ended by its alarm.
_HEAD = """
import os, random, signal, sys
import numpy as np
from minicc.backends.llvm import compile  # children begin with what this imports
from minicc.runtime import execute
import minicc

execute.usable_processors = lambda: 4
threads = int(sys.argv[1])
rng = np.random.default_rng(0)
w = rng.integers(-8, 8, (64, 256)).astype(np.float32)
x = rng.integers(-8, 8, (300, 64)).astype(np.float32)
want = np.maximum(x @ w, 0)

@minicc.jit
def layer(x):
    return np.maximum(x @ w, 0)

layer.options = layer.options.replace(threads=threads)

def child(interrupted):
    # what became of a run that is interrupted: 0 and 1 are good
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    signal.alarm(60)
    hit = 0
    try:
        interrupted()
    except KeyboardInterrupt:
        hit = 1
    except BaseException:  # an interrupt that became another error
        os._exit(3)
    for _ in range(3):
        if not np.array_equal(layer(x), want):
            os._exit(2)
    os._exit(hit)
"""

_EACH_LINE = """
FILES = (
    *("runtime/threads.py", "runtime/execute.py", "minicc/jitted.py", "llvm/compile.py"),
    "minicc/settling.py",
)

def at(line):
    def interrupted():
        count = 0
        def trace(frame, event, argument):
            nonlocal count
            if event == "line" and frame.f_code.co_filename.endswith(FILES):
                count += 1
                if count == line:
                    raise KeyboardInterrupt
            return trace
        sys.settrace(trace)
        try:
            layer(x)
        finally:
            sys.settrace(None)
    return interrupted

if sys.argv[2] == "run":
    compiled = layer(x)
    from minicc.runtime import threads as teams
    teams._idle.clear()
step, found = int(sys.argv[3]), []
while not found or found[-1] == 1:
    found.append(child(at(step * len(found) + 1)))
print(found[-1], len(found) > 10)
"""

_SIGNALS = """
def late(seconds):
    def interrupted():
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            for _ in range(20):
                layer(x)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
    return interrupted

layer(x)
from minicc.runtime import threads as teams
teams._idle.clear()
random.seed(0)
print(sorted({0, 1} | {child(late(1e-5 + random.random() * 3e-3)) for _ in range(60)}))
"""


def _output(script: str, *arguments: str) -> str:
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _HEAD + script, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("threads", part(["1", "2", "4"], 3))
def test_interrupted_at_each_line_of_a_first_run(threads: str) -> None:
    assert _output(_EACH_LINE, threads, "run", "1") == "0 True"


def test_interrupted_at_lines_of_a_compilation() -> None:
    assert _output(_EACH_LINE, "2", "compile", "7") == "0 True"


@pytest.mark.parametrize("threads", part(["1", "2", "4"], 3))
def test_signals_at_any_time(threads: str) -> None:
    assert _output(_SIGNALS, threads) == "[0, 1]"


def test_an_interrupt_ends_a_compilation() -> None:
    """What waits to be compiled is not compiled any more."""
    script = """
import os, signal, sys, threading
from minicc.backends.base import MemoryStore
from minicc.backends.llvm.compile import Objects
from minicc.target import TARGETS
# where the tests run in the background of a shell, it is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
made = []
def make():
    made.append(1)
    if len(made) == 1:
        os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(0.2)
    return b""
try:
    with Objects(TARGETS["x86-64"], MemoryStore()) as objects:
        for code in [objects.code(str(k), make) for k in range(1000)]:
            code.result()
except KeyboardInterrupt:
    print("interrupted", len(made) < 1000)
"""
    assert _output(script, "1") == "interrupted True"
