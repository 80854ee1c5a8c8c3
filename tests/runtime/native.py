"""Native functions for tests of threads: runs of many launches, delays, a look at rounding."""

from __future__ import annotations

import ctypes
import os
import time
from functools import cache
from typing import Any

import numpy as np

from minicc.backends.base import RuntimeCode
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import optimise
from minicc.runtime.image import Library, load
from minicc.runtime.threads import Team, runtime_code
from minicc.target import TARGETS

Array = np.ndarray[Any, Any]

PLACES = ("before a claim", "claimed", "finished", "published", "barrier", "awake")
EVERYWHERE = (1 << len(PLACES)) - 1


def _instances(name: str, start: str, each: str) -> str:
    """IR of what runs some instances of a launch: after a start, the same for each `%i`."""
    return f"""
define internal void @{name}(ptr %frame, i64 %thread, i64 %lo, i64 %hi) nounwind {{
entry:{start}
  br label %head
head:
  %i = phi i64 [%lo, %entry], [%next, %body]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %done
body:{each}
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""


# The table of `rounds`: team, rounds, extent, work, even, odd. A round makes x[i] * 3 + x[i + 7] of
# one array in the other, so what is lost, done twice or seen too early changes what follows.
_ROUNDS = (
    """
declare void @minicc_launch(ptr, ptr, ptr, i64, i64)
declare void @minicc_barrier(ptr)

"""
    + _instances(
        "step",
        """
  %to.at = getelementptr i64, ptr %frame, i64 1
  %n.at = getelementptr i64, ptr %frame, i64 2
  %from = load ptr, ptr %frame
  %to = load ptr, ptr %to.at
  %n = load i64, ptr %n.at""",
        """
  %far = add i64 %i, 7
  %j = urem i64 %far, %n
  %x.at = getelementptr i64, ptr %from, i64 %i
  %y.at = getelementptr i64, ptr %from, i64 %j
  %z.at = getelementptr i64, ptr %to, i64 %i
  %x = load i64, ptr %x.at
  %y = load i64, ptr %y.at
  %triple = mul i64 %x, 3
  %z = add i64 %triple, %y
  store i64 %z, ptr %z.at""",
    )
    + """
define void @rounds(ptr %table) nounwind {
entry:
  %frame = alloca [3 x i64]
  %to.at = getelementptr i64, ptr %frame, i64 1
  %n.at = getelementptr i64, ptr %frame, i64 2
  %rounds.at = getelementptr i64, ptr %table, i64 1
  %extent.at = getelementptr i64, ptr %table, i64 2
  %work.at = getelementptr i64, ptr %table, i64 3
  %even.at = getelementptr i64, ptr %table, i64 4
  %odd.at = getelementptr i64, ptr %table, i64 5
  %team = load ptr, ptr %table
  %rounds = load i64, ptr %rounds.at
  %extent = load i64, ptr %extent.at
  %work = load i64, ptr %work.at
  %even = load ptr, ptr %even.at
  %odd = load ptr, ptr %odd.at
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %loop]
  %from = phi ptr [%even, %entry], [%to, %loop]
  %to = phi ptr [%odd, %entry], [%from, %loop]
  call void @minicc_barrier(ptr %team)
  store ptr %from, ptr %frame
  store ptr %to, ptr %to.at
  store i64 %extent, ptr %n.at
  call void @minicc_launch(ptr %team, ptr @step, ptr %frame, i64 %extent, i64 %work)
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %rounds
  br i1 %more, label %loop, label %done
done:
  call void @minicc_barrier(ptr %team)
  ret void
}
"""
)

# The table of `modes`: team, extent, work, the control word to set, where instances put theirs.
_MODES = (
    """
declare void @minicc_launch(ptr, ptr, ptr, i64, i64)
declare void @minicc_barrier(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

"""
    + _instances(
        "look",
        """
  %to = load ptr, ptr %frame""",
        """
  %at = getelementptr i32, ptr %to, i64 %i
  call void @llvm.x86.sse.stmxcsr(ptr %at)""",
    )
    + """
define void @modes(ptr %table) nounwind {
  %old = alloca i32
  %extent.at = getelementptr i64, ptr %table, i64 1
  %work.at = getelementptr i64, ptr %table, i64 2
  %mode.at = getelementptr i64, ptr %table, i64 3
  %frame = getelementptr i64, ptr %table, i64 4
  %team = load ptr, ptr %table
  %extent = load i64, ptr %extent.at
  %work = load i64, ptr %work.at
  call void @llvm.x86.sse.stmxcsr(ptr %old)
  call void @llvm.x86.sse.ldmxcsr(ptr %mode.at)
  call void @minicc_barrier(ptr %team)
  call void @minicc_launch(ptr %team, ptr @look, ptr %frame, i64 %extent, i64 %work)
  call void @minicc_barrier(ptr %team)
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  ret void
}
"""
)

# The table of `slow`: team, extent, work, where instances say who ran them. Each sleeps for 1 ms.
_SLOW = (
    """
declare void @minicc_launch(ptr, ptr, ptr, i64, i64)
declare void @minicc_barrier(ptr)
declare i64 @syscall(i64, ...)

"""
    + _instances(
        "note",
        """
  %span = alloca { i64, i64 }
  %at = getelementptr i64, ptr %span, i64 1
  store i64 0, ptr %span
  store i64 1000000, ptr %at
  %to = load ptr, ptr %frame""",
        """
  call i64 (i64, ...) @syscall(i64 35, ptr %span, ptr null)
  %there = getelementptr i64, ptr %to, i64 %i
  store i64 %thread, ptr %there""",
    )
    + """
define void @slow(ptr %table) nounwind {
  %extent.at = getelementptr i64, ptr %table, i64 1
  %work.at = getelementptr i64, ptr %table, i64 2
  %frame = getelementptr i64, ptr %table, i64 3
  %team = load ptr, ptr %table
  %extent = load i64, ptr %extent.at
  %work = load i64, ptr %work.at
  call void @minicc_launch(ptr %team, ptr @note, ptr %frame, i64 %extent, i64 %work)
  call void @minicc_barrier(ptr %team)
  ret void
}
"""
)

# A worker that has lost its core in each chunk.
_CROWDED = """
define internal i1 @minicc_crowded(ptr %team, ptr %health, i64 %begin) nounwind {
  call void @minicc_rest(ptr %team, ptr %health)
  ret i1 true
}
"""


def _delay(places: int, microseconds: int) -> str:
    """A function that sleeps now and then, at those places whose bits are set."""
    return f"""
define internal void @delay(i64 %place) nounwind {{
  %bit = shl i64 1, %place
  %wanted = and i64 %bit, {places}
  %now = call i64 @llvm.readcyclecounter()
  %high = lshr i64 %now, 13
  %mixed = xor i64 %now, %high
  %many = mul i64 %mixed, 2685821657736338717
  %random = lshr i64 %many, 40
  %eighth = and i64 %random, 7
  %rare = icmp eq i64 %eighth, 0
  %here = icmp ne i64 %wanted, 0
  %both = and i1 %rare, %here
  br i1 %both, label %sleep, label %done
sleep:
  %span = alloca {{ i64, i64 }}
  %more = lshr i64 %random, 3
  %micro = urem i64 %more, {microseconds}
  %nano = mul i64 %micro, 1000
  %at = getelementptr i64, ptr %span, i64 1
  store i64 0, ptr %span
  store i64 %nano, ptr %at
  call i64 (i64, ...) @syscall(i64 35, ptr %span, ptr null)
  br label %done
done:
  ret void
}}
"""


def code(places: int = 0, microseconds: int = 300) -> RuntimeCode:
    """A team's code that sleeps at random at the places whose bits are set."""
    return runtime_code("delay", _delay(places, microseconds)) if places else runtime_code()


@cache
def library(places: int = 0, microseconds: int = 300, crowded: bool = False) -> Library:
    """Such code with `rounds`, `modes` and `slow`, in memory; its workers may rest all the time."""
    team = code(places, microseconds).text
    if crowded:
        head, tail = "define internal i1 @minicc_crowded(", "define internal i1 @never("
        assert head in team
        team = team.replace(head, tail) + _CROWDED
    objects = [Object(optimise(text, TARGETS["x86-64"])) for text in (team, _ROUNDS, _MODES, _SLOW)]
    names = ("minicc_worker", "minicc_close", "minicc_launch", "minicc_barrier")
    return load(link(objects, (*names, "rounds", "modes", "slow")))


@cache
def main(name: str, team: Library) -> Any:
    """`rounds`, `modes` or `slow` as a function of its table."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(team[name])


def leaving() -> Any:
    """What has a thread leave the core whose number its table has, where it says whether it did."""
    more = """
define void @leave(ptr %table) nounwind {
  %core = load i32, ptr %table
  %left = call i1 @minicc_leave(i32 %core)
  %told = zext i1 %left to i64
  store i64 %told, ptr %table
  ret void
}"""
    text = optimise(runtime_code(more=more).text, TARGETS["x86-64"])
    return main("leave", load(link([Object(text)], ("leave",))))


def table(*words: int) -> Any:
    """Words and addresses as `main` takes them."""
    return (ctypes.c_int64 * len(words))(*words)


def expected(x: Array, rounds: int) -> Array:
    """What so many rounds make of `x`."""
    for _ in range(rounds):
        x = x * np.uint64(3) + np.roll(x, -7)
    return x


def run_rounds(team: Team, code: Library, rounds: int, extent: int, work: int) -> bool:
    """Whether rounds of launches gave what they must, in memory of their own."""
    x = np.random.default_rng(extent).integers(0, 1 << 60, extent, np.uint64)
    even, odd = x.copy(), np.zeros_like(x)
    words = (team.start(), rounds, extent, work, even.ctypes.data, odd.ctypes.data)
    main("rounds", code)(table(*words))
    return bool(np.array_equal(odd if rounds % 2 else even, expected(x, rounds)))


def running() -> int:
    """The threads of this process, whoever started them, without those that are just ending."""

    def count() -> int:
        return len(os.listdir("/proc/self/task"))

    before, now = -1, count()
    while now != before:
        time.sleep(0.02)
        before, now = now, count()
    return now
