"""A matrix product on its way from one graph op to vector instructions.

Each stage that changes it is printed, cut to the part that matters, below what other systems call
it, and at the end what the kernel's inner loop consists of. Code is made for AVX2 and not run, so
any machine prints the same.
"""

import re
import sys
from collections import Counter
from math import prod
from textwrap import wrap

import numpy as np
import numpy.typing as npt

import minicc
from minicc.backends.llvm.compile import assemble
from minicc.compile.compiler import lower, stage_named
from minicc.ir.core import Module
from minicc.ir.structured import Group
from minicc.ir.text.printer import print_attribute, print_function, print_module
from minicc.records import record_of

Array = npt.NDArray[np.float32]
OPTIONS = minicc.Options(target="avx2")
WIDTH = 96

STAGES = {
    "specialise": "the graph: one op; letters say which axes are paired and summed",
    "lower-to-structured": "a loop nest: y and z are parallel, k is summed",
    "schedule": "the choice of tiles: steps of rows by columns; the right matrix is copied",
    "tile": "z is cut: an instance makes some columns, in steps of yi times zi elements",
    "bufferize": "a kernel: a grid of instances, whose values are tiles",
    "parallelize": "the program: a launch on buffers, whose instances threads share",
}


def product(a: Array, b: Array) -> Array:
    """The function to compile."""
    return a @ b


def shortened(text: str) -> str:
    """The lines without headings, long ones in several; of `main` and of kernels each is cut."""
    out: list[str] = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 6)
        if " = structured." in line:
            out += wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
        elif line and not line.startswith("module"):
            out.append(line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}...")
    return "\n".join(out)


def part(module: Module, stage: str) -> str:
    """What a stage is about: the whole module, the schedule, the kernel, or `main`."""
    if stage == "schedule":
        (group,) = (op for op in module.main.body.ops if isinstance(op, Group))
        return print_attribute(group.schedule)
    if stage == "bufferize":
        kernel = next(f for f in module.functions if f.name not in ("pack", "main"))
        return print_function(kernel, locations=False)
    if stage == "parallelize":
        return print_function(module.main, locations=False)
    return print_module(module, locations=False)


def inner_loop(assembler: str) -> Counter[str]:
    """The vector instructions of the loop with the most multiply-adds.

    A loop is what lies between a label and a jump back to it, without another label.
    """
    blocks = re.split(r"^(\.L\w+):", assembler, flags=re.MULTILINE)[1:]
    loops = []
    for label, block in zip(blocks[::2], blocks[1::2], strict=True):
        body, jump, _ = re.split(rf"^(\tj\w+\t{label}$|\Z)", block, maxsplit=1, flags=re.MULTILINE)
        if jump:
            loops.append(Counter(re.findall(r"^\t(v\w+)", body, re.MULTILINE)))
    return max(loops, key=lambda loop: loop["vfmadd231ps"])


def main() -> int:
    """Return 0 where the inner loop has a multiply-add for each vector of the tile."""
    a, b = np.zeros((60, 96), np.float32), np.zeros((96, 128), np.float32)
    module = minicc.jit(product, options=OPTIONS).lower(a, b).module
    last: str | None = None
    tiles: dict[str, int] = {}
    at_once = 0
    for stage, sentence in STAGES.items():
        print(f"== {stage}: {sentence}\n")
        module = lower(module, OPTIONS, start=last, stop=stage)
        print(record_of(stage_named(stage).home).head())
        print(f"{shortened(part(module, stage))}\n")
        if stage == "schedule":
            (group,) = (op for op in module.main.body.ops if isinstance(op, Group))
            assert group.schedule is not None
            tiles, at_once = dict(group.schedule.steps), group.schedule.unroll.at_once
        last = stage

    # A tile of 4 x 16 floats would be 8 registers of 8 floats; for each k the loop would read 4
    # elements of one matrix, 2 vectors of the other, and have 8 multiply-adds to do. `unroll` makes
    # several rounds into one.
    name = next(f.name for f in module.functions if f.name not in ("pack", "main"))
    loop = inner_loop(assemble(module, OPTIONS.machine, OPTIONS.flushed)[name])
    print(f"== assembly: the vector instructions of the loop over k, {at_once} rounds at once\n")
    for instruction, count in loop.items():
        print(f"{count:3} {instruction}")
    adds = at_once * prod(tiles.values()) // OPTIONS.machine.lanes(32)
    return 0 if loop["vfmadd231ps"] == adds else 1


if __name__ == "__main__":
    sys.exit(main())
