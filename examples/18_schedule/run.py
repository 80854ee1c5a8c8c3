"""A schedule by hand: other tiles than the compiler's, what they cost, and what is refused.

A schedule says how a group of ops is computed, not what. `minicc compile MODEL --schedules` prints
the compiler's own; `--schedule FILE` or `Options(schedules=...)` puts others in their place. How
often a kernel loads and multiplies is counted here: a multiply-add of a tile of 6 x 16 uses each
loaded number of the one matrix 16 times, and each of the other 6 times.
"""

import sys
import timeit
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.compile.compiler import lower
from minicc.ir.core import Module, Region
from minicc.ir.kernel import Dot, For, Load
from minicc.ir.structured import Group
from minicc.ir.text.printer import print_attribute
from minicc.records import record_of

Array = npt.NDArray[np.float32]
TILES = {
    "a dot at a time": "<z=8>",
    "one row": "<z=16>",
    "half of the registers": "<y=3, z=16>",
    "most of the registers": "<y=6, z=16>",
    "more than there are": "<y=16, z=32>",
}


def product(a: Array, b: Array) -> Array:
    """The group to schedule."""
    return a @ b


def options(schedule: str | None, target: str | None = "avx2") -> minicc.Options:
    """One thread, and a schedule for the only group."""
    line = product.__code__.co_firstlineno + 2  # a group is called as the line that it is from
    given = {} if schedule is None else {f"run.py:{line}": schedule}
    return minicc.Options(target=target, schedules=given, threads=1)


def elements(region: Region, kind: type[Load | Dot], times: int = 1) -> int:
    """Elements that an instance of a kernel loads, or multiplies and adds."""
    total = 0
    for op in region.ops:
        total += times * prod(op.result.type.extents) if isinstance(op, kind) else 0
        for inner in op.regions:
            total += elements(inner, kind, times * (op.rounds if isinstance(op, For) else 1))
    return total


def traffic(module: Module) -> float:
    """Multiply-adds for each number that the product's kernel loads."""
    body = next(f.body for f in module.functions if f.name not in ("pack", "main"))
    return elements(body, Dot) / elements(body, Load)


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where all legal schedules give the same bits."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(240, 240)).astype(np.float32) for _ in range(2))
    print(record_of("minicc.passes.structured.write_schedules").head())
    own = lower(minicc.jit(product, options=options(None)).lower(a, b).module, options(None),
                stop="schedule")  # fmt: skip
    (group,) = (op for op in own.main.body.ops if isinstance(op, Group))
    print(f"the compiler's own:\n\n{print_attribute(group.schedule)}\n")
    results = []
    for name, tiles in TILES.items():
        schedule = f'schedule<grid = ["z", "y"], tiles = {tiles}, packs = [[0, 1, 0]]>'
        given = options(schedule)
        module = lower(minicc.jit(product, options=given).lower(a, b).module, given)
        call = minicc.jit(product, options=options(schedule, None))
        results.append(call(a, b).tobytes())
        taken = milliseconds(call, a, b)
        print(f"{name:22} {tiles:15} {traffic(module):4.1f} multiply-adds a number,"
              f" {taken:.3f} ms")  # fmt: skip
    same = len({*results}) == 1
    print(f"\nall give the same bits: {same}\n")

    # What no kernel could do is refused in words.
    for wrong in ('schedule<grid = ["z", "y"], tiles = <q=4>>', 'schedule<grid = ["z"]>'):
        given = options(wrong)
        try:
            lower(minicc.jit(product, options=given).lower(a, b).module, given)
        except minicc.UserError as error:
            print(error)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
