"""Watching a fusion: a soft-max at the structured level, before and after `merge` and `fuse`.

`merge` joins elementwise ops into one body, `fuse` groups ops that share parallel dimensions.
Stages are functions from module to module, so each can be run on its own and its text compared;
`minicc opt FILE --passes merge,fuse` does the same from the shell.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

import minicc
from minicc.cli import commands
from minicc.compile.compiler import lower
from minicc.ir import structured
from minicc.ir.core import Module, walk
from minicc.ir.interpret import run
from minicc.ir.text.printer import print_module

Array = npt.NDArray[np.float32]
# strict mathematics: no rule writes the powers otherwise than the function does
OPTIONS = minicc.Options(target="x86-64", math="strict")


def softmax(x: Array) -> Array:
    """Each row's exponentials, divided by their sum; less the maximum, so that none overflows."""
    powers: Array = np.exp(x - x.max(axis=1, keepdims=True))
    total: Array = powers.sum(axis=1, keepdims=True)
    return powers / total


def show(title: str, module: Module) -> None:
    """The text of a module, and how many loop nests and groups it has."""
    ops = list(walk(module.main.body))
    nests = sum(isinstance(op, structured.Generic) for op in ops)
    groups = sum(isinstance(op, structured.Group) for op in ops)
    print(f"== {title}: loop nests: {nests}, groups: {groups}\n")
    print(print_module(module, locations=False))


def opt(module: Module, passes: str) -> str:
    """What the command makes of the module's text."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before.mcc"), Path(folder, "after.mcc")
        before.write_text(print_module(module))
        commands.main(
            ["opt", str(before), "--passes", passes, "-o", str(after)], standalone_mode=False
        )
        head, _, text = after.read_text().partition("\n\n")
        print(f"the head of what it writes:\n\n{head}\n")
        return text


def main() -> int:
    """Return 0 where all three forms mean the same, and the command agrees."""
    x = np.random.default_rng(4).standard_normal((64, 100)).astype(np.float32)
    graph = minicc.jit(softmax).lower(x).module

    # One loop nest for each NumPy call. `|` stands between parallel dimensions and reductions.
    plain = lower(graph, OPTIONS, stop="lower-to-structured")
    show("lowered", plain)

    # The difference and its exponential are one body now.
    merged = lower(plain, OPTIONS, start="lower-to-structured", stop="merge")
    show("merge", merged)

    # All nests go over rows: they stand in one group that shares d0, and only the group's result
    # leaves it. The sum is taken where the exponentials are made: that nest has two results.
    fused = lower(merged, OPTIONS, start="merge", stop="fuse")
    show("fuse", fused)

    # Every level can be run by the interpreter, so what a stage did can be checked at once.
    (want,) = run(plain, [x])
    close = all(np.allclose(run(m, [x])[0], want, rtol=1e-5, atol=0) for m in (merged, fused))
    print(f"all three mean the same: {close}")
    same = opt(plain, "merge,fuse") == print_module(fused)
    print(f"minicc opt --passes merge,fuse prints the same text: {same}")
    return 0 if close and same else 1


if __name__ == "__main__":
    sys.exit(main())
