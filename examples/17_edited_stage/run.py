"""An edited stage: the text of a level, changed by hand, and run from there.

Each stage's text is a program. A file goes on after the stage that its first line names, so that
what one writes there is in the machine code: here a constant of a loop's body, and the rounds of
the loop that are written out. From the shell it is `minicc compile MODEL --dump DIR`, an editor,
and `minicc run FILE.mcc`.
"""

import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.compile.compiler import lower, stage_named
from minicc.compile.observe import headed, write_text
from minicc.ir.core import Module, walk
from minicc.ir.kernel import For

Array = npt.NDArray[np.float32]


def scaled(x: Array, w: Array) -> Array:
    """A product of few rows, times a number."""
    return (x @ w) * 2


def loops(module: Module) -> int:
    """The loops of all kernels."""
    kernels = [f for f in module.functions if f is not module.main]
    return sum(isinstance(op, For) for f in kernels for op in walk(f.body))


def changed(path: Path, old: str, new: str) -> None:
    """Edit a file, and show the lines that are other than before."""
    before = path.read_text()
    assert old in before, before
    path.write_text(before.replace(old, new))
    for a, b in zip(before.splitlines(), path.read_text().splitlines(), strict=True):
        if a != b:
            where = max(0, a.find(old) - 20)
            print(f"- ... {a[where:][:70]} ...\n+ ... {b[where:][:70]} ...")


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where the edits are in what runs."""
    options = minicc.Options(threads=1, target="x86-64")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(6, 32)).astype(np.float32), np.eye(32, dtype=np.float32)
    feed = {"x": x, "w": w}
    start = minicc.jit(scaled, options=options).lower(x, w).module
    good = []
    with tempfile.TemporaryDirectory() as folder:
        for stage, edit in (
            ("fuse", ("dense<f32, 2.0>", "dense<f32, 3.0>")),
            ("schedule", ("schedule<", "schedule<unroll = [32, 32768], ")),
        ):
            path = Path(folder, f"{stage}.mcc")
            module = lower(start, options, stop=stage)
            write_text(path, headed(stage_named(stage), module), module)
            print(f"== the text after {stage}, before and after\n")
            changed(path, *edit)
            session = minicc.InferenceSession(path, options=options)
            (got,) = session.run(None, feed)
            count = loops(lower(session.module, options, start=stage, stop="hoist"))
            times, taken = got[0, 0] / x[0, 0], milliseconds(session.run, None, feed)
            print(f"\nthe result is {times:.0f} times x; loops in kernels: {count};"
                  f" a run in {taken:.3f} ms\n")  # fmt: skip
            good.append(np.allclose(got, x * (3 if stage == "fuse" else 2), rtol=1e-6))
            good.append(count == (1 if stage == "fuse" else 0))
        # What is wrong with a text is told by line and column.
        path.write_text(path.read_text().replace("unroll = [32,", "unrol = [32,"))
        try:
            minicc.InferenceSession(path, options=options)
        except minicc.UserError as error:
            print(str(error).replace(folder, "FOLDER"))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
