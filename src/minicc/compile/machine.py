"""What this machine reaches: its rate of multiply-adds, and the bandwidth of each level of memory.

Measured in under a second and kept in the cache's folder. The kernels are minicc's own, written as
text of the structured level with their schedules: a product that stays in registers and the first
cache, and a sum over an array as large as half of a level. Nothing here decides any code, which
depends on the target's name alone; `minicc target` and benchmarks show it.
"""

from __future__ import annotations

import json
import time
from math import inf
from typing import NamedTuple

import numpy as np

from minicc.compile.compiled import compile_module
from minicc.ir.arrays import Array
from minicc.ir.text.parser import parse_module
from minicc.options import Options
from minicc.runtime.cache import cache_at, key
from minicc.target import Target, host_model, last_cache
from minicc.version import VERSION

_DEPTH, _ROUNDS = 64, 8192  # terms that a product sums in a round, and rounds
_READS = 8  # vectors that are summed side by side, so that no addition waits for another
_LEAST, _MOST = 1 << 26, 1 << 28  # bytes of an array that no cache holds
_SECONDS = 0.03  # for each rate

_PRODUCT = """
module level = "structured"
func @main(%a: f32[{parts},{rows},{depth}], %b: f32[{parts},{depth},{width}])
    -> ("y": f32[{parts},{rows},{width}]) {{
  %0 = structured.group %a, %b {{shared = ["p", "m", "n"], label = "roof",
      schedule = schedule<grid = ["p", "m", "n"], tiles = <m={rows}, n={width}>>}} {{
  ^(%a1: f32[{parts},{rows},{depth}], %b1: f32[{parts},{depth},{width}]):
    %1 = structured.generic %a1, %b1 {{
        space = <p={parts}, m={rows}, n={width} | t={times}, k={depth}>,
        maps = [[p, m, k], [p, k, n], [p, m, n]], shapes = [[{parts}, {rows}, {width}]],
        combine = ["add"]}} {{
    ^(%2: f32, %3: f32):
      %4 = arith.mul %2, %3 : f32 loc("roof")
      yield %4
    }} : f32[{parts},{rows},{width}] loc("roof")
    yield %1
  }} : f32[{parts},{rows},{width}] loc("roof")
  yield %0
}}
"""
_READ = """
module level = "structured"
func @main(%x: f32[{parts},{length},{width}]) -> ("y": f32[{parts},{width}]) {{
  %0 = structured.group %x {{shared = ["p", "n"], label = "read",
      schedule = schedule<grid = ["p", "n"], tiles = <n={width}>>}} {{
  ^(%x1: f32[{parts},{length},{width}]):
    %1 = structured.generic %x1 {{space = <p={parts}, n={width} | t={times}, k={length}>,
        maps = [[p, k, n], [p, n]], shapes = [[{parts}, {width}]], combine = ["add"]}} {{
    ^(%2: f32):
      yield %2
    }} : f32[{parts},{width}] loc("read")
    yield %1
  }} : f32[{parts},{width}] loc("read")
  yield %0
}}
"""


class Rates(NamedTuple):
    """What so many threads reach together: GFLOP/s of multiply-adds, GB/s by level of memory."""

    threads: int
    roof: float
    bandwidth: dict[str, float]


def measured(options: Options, again: bool = False) -> list[Rates]:
    """The rates of one thread and of all, as kept, or measured where they are not or `again`.

    The machine must run the options' target.
    """
    kept = cache_at(options.cache_dir, options.cache_bytes)
    facts = (options.machine.name, host_model(), str(options.threads), str(last_cache()))
    name = key("machine", VERSION, *facts)
    found = None if again else kept.get(name)
    if found is not None:
        return [Rates(*row) for row in json.loads(found)]
    rates = [_rates(options.replace(threads=n)) for n in sorted({1, options.threads})]
    kept.put(name, json.dumps(rates).encode())
    return rates


def _rates(options: Options) -> Rates:
    target, threads = options.machine, options.threads
    lanes = target.lanes(32)
    width, rows = 2 * lanes, (target.registers - 3) // 2
    facts = {"parts": threads, "rows": rows, "width": width}
    text = _PRODUCT.format(**facts, depth=_DEPTH, times=_ROUNDS)
    a = np.ones((threads, rows, _DEPTH), np.float32)
    b = np.ones((threads, _DEPTH, width), np.float32)
    roof = _rate(text, [a, b], 2 * a.size * width * _ROUNDS, options)
    bandwidth: dict[str, float] = {}
    for level, (size, most) in _sizes(target, threads).items():
        width = _READS * lanes
        x = np.ones((threads, size // width // 4, width), np.float32)
        times = max(1, most // size)
        text = _READ.format(parts=threads, width=width, length=x.shape[1], times=times)
        bandwidth[level] = _rate(text, [x], times * x.nbytes, options)
    return Rates(threads, roof, bandwidth)


def _sizes(target: Target, threads: int) -> dict[str, tuple[int, int]]:
    """Bytes that a thread reads again and again, and in all, by the level that they come from."""
    last = last_cache()
    sizes = {"L1": (target.l1 // 2, 1 << 28), "L2": (target.l2 // 2, 1 << 27)}
    if last // (4 * threads) >= target.l2:
        sizes["L3"] = last // (4 * threads), 1 << 26
    sizes["memory"] = min(max(_LEAST, 3 * last), _MOST) // threads, 0
    return sizes


def _rate(text: str, inputs: list[Array], amount: int, options: Options) -> float:
    """The best of some runs, in billions a second, of a program that does such an amount."""
    module = parse_module(text, source="machine.py")
    executable = compile_module(module, options, {}, start="schedule").executable
    best = inf
    end = time.perf_counter() + _SECONDS
    while best == inf or time.perf_counter() < end:
        began = time.perf_counter()
        executable.run(inputs)
        best = min(best, time.perf_counter() - began)
    return amount / best / 1e9
