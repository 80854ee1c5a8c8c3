"""How long 100,000 ops take to be printed and parsed; the budget is 5 s.

python -m benchmarks.text_speed
"""

from __future__ import annotations

import time

from minicc.ir.core import Function, Module, Op, Region, Value, same_module
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.types import F32, TensorType, Type

OPS = 100_000
BUDGET_SECONDS = 5.0


class Mix(Op, name="test.speed_mix"):
    a: Value
    b: Value
    at: tuple[object, ...]
    axis: int = 0

    def infer(self) -> tuple[Type, ...]:
        return (self.operands[0].type,)


class Block(Op, name="test.speed_block"):
    xs: tuple[Value, ...]
    body: Region

    def infer(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.operands)


def large_module() -> Module:
    """Blocks of ten ops; every node of the model gave one block."""
    tile = TensorType(F32, (14, 32))
    x = Value(tile, "x")
    last, ops = x, []
    for block in range(OPS // 10):
        loc = (f"Conv_{block}", f"Relu_{block}")
        inner: list[Op] = []
        acc = argument = Value(tile, "acc")
        for k in range(9):
            mix = Mix(acc, x, at=("h", k, block % 100), axis=k % 3, loc=loc)
            inner.append(mix)
            acc = mix.results[0]
        ops.append(Block((last,), body=Region((argument,), inner, (acc,)), loc=loc))
        last = ops[-1].results[0]
    return Module("kernel", [Function("main", Region((x,), ops, (last,)))])


def main() -> None:
    """Print the best of three runs."""
    module = large_module()
    parse_module('module level = "kernel"\n')  # reading the grammar is not the question
    best = (float("inf"), float("inf"))
    for _ in range(3):
        start = time.process_time()
        text = print_module(module)
        printed = time.process_time()
        parsed = parse_module(text)
        done = time.process_time()
        assert same_module(parsed, module)
        best = min(best, (printed - start, done - printed), key=sum)
    print(f"printed in {best[0]:.2f} s, parsed in {best[1]:.2f} s; budget {BUDGET_SECONDS} s")


if __name__ == "__main__":
    main()
