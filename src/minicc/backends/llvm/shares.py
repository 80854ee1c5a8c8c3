"""How `main` hands a launch to a team: what a share of it is called with.

A launch that is shared writes the kernel and its arguments to a frame and hands the team a
function, its *stub*, that reads them back and runs the kernel on some places of the shared axes.
These count as one axis, so that shares are even whatever the extents are. Launches whose arguments
are of the same kinds have the same functions: written out for each, they would be most of `main`.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.backends.llvm.emitter import symbol_of
from minicc.ir import program
from minicc.ir.core import Value

BARRIER = "  call void @minicc_barrier(ptr %team)"
SCRATCH, PART = "ptr %scratch", "i64 %scratch.part"  # the caller's, and bytes of a thread's


def arguments(op: program.Launch, grid: Sequence[str], names: dict[Value, str]) -> list[str]:
    """What a kernel is called with, all of the grid for now."""
    ends = [f"i64 {end}" for extent in grid for end in ("0", extent)]
    return [*(f"ptr {names[v]}" for v in op.buffers), *ends]


def _ends(op: program.Launch, axis: int) -> tuple[int, int]:
    """Where lo and hi of an axis stand among the arguments."""
    lo = len(op.buffers) + 2 * axis
    return lo, lo + 1


def frame_of(op: program.Launch, arguments: Sequence[str], rounds: str) -> list[str]:
    """What a launch writes to the frame; `rounds` is the round's number where it goes zigzag."""
    part = [PART] if SCRATCH in arguments else []
    turn = [f"i64 {rounds}"] if op.zigzag else []
    return [*arguments, *part, *turn, f"ptr @{symbol_of(op.kernel)}"]


def hand_out(
    extent: str, work: str, stub: str, frame: Sequence[str], functions: dict[str, str]
) -> str:
    """Hand a launch out; `extent` is how many places the shared axes have together.

    The function that does so for such a frame is entered: it writes the frame when the one before
    is no longer read.
    """
    kinds = [argument.partition(" ")[0] for argument in frame]
    name = f"hand.{''.join(kind[0] for kind in kinds)}"
    if name not in functions:
        taken = "ptr %team, ptr %share, ptr %frame, i64 %extent, i64 %work"
        given = "".join(f", {kind} %a{k}" for k, kind in enumerate(kinds))
        lines = [f"define internal void @{name}({taken}{given}) nounwind {{", BARRIER]
        for k, kind in enumerate(kinds):
            lines.append(f"  %a{k}.at = getelementptr i64, ptr %frame, i64 {k}")
            lines.append(f"  store {kind} %a{k}, ptr %a{k}.at")
        lines += [f"  call void @minicc_launch({taken})", "  ret void", "}", ""]
        functions[name] = "\n".join(lines)
    passed = f"ptr %team, ptr @{stub}, ptr %frame, i64 {extent}, i64 {work}"
    return f"  call void @{name}({', '.join([passed, *frame])})"


def stub(op: program.Launch, arguments: Sequence[str], functions: dict[str, str]) -> str:
    """The name of the function that runs a part of a launch, which is entered."""
    kinds = [argument.partition(" ")[0] for argument in arguments]
    pairs = zip(arguments, kinds, strict=True)
    taken = "".join("s" if argument == SCRATCH else kind[0] for argument, kind in pairs)
    name = f"share.{'.'.join(map(str, op.split))}.{'zigzag.' if op.zigzag else ''}{taken}"
    if name not in functions:
        functions[name] = _stub(name, op, arguments, kinds)
    return name


def _stub(name: str, op: program.Launch, arguments: Sequence[str], kinds: Sequence[str]) -> str:
    lines = [f"define internal void @{name}(ptr %frame, i64 %thread, i64 %lo, i64 %hi) nounwind {{"]
    passed: list[str] = []
    for k, kind in enumerate(kinds):
        lines.append(f"  %a{k}.at = getelementptr i64, ptr %frame, i64 {k}")
        lines.append(f"  %a{k} = load {kind}, ptr %a{k}.at")
        passed.append(f"{kind} %a{k}")
    if SCRATCH in arguments:
        passed[arguments.index(SCRATCH)] = "ptr %own"
        lines += [
            f"  %part.at = getelementptr i64, ptr %frame, i64 {len(arguments)}",
            "  %part = load i64, ptr %part.at",
            "  %offset = mul i64 %thread, %part",
            f"  %own = getelementptr i8, ptr %a{arguments.index(SCRATCH)}, i64 %offset",
        ]
    turn = len(arguments) + (SCRATCH in arguments)
    lines += [
        f"  %kernel.at = getelementptr i64, ptr %frame, i64 {turn + op.zigzag}",
        "  %kernel = load ptr, ptr %kernel.at",
    ]
    ends = [_ends(op, axis) for axis in op.split]
    if op.zigzag:
        boxes, bounds, after = _back_and_forth(turn)
    else:
        boxes, bounds, after = _boxes([f"%a{hi}" for _, hi in ends])
    for pair, bound in zip(ends, bounds, strict=True):
        for k, end in zip(pair, bound, strict=True):
            passed[k] = f"i64 {end}"
    lines += [*boxes, f"  call void %kernel({', '.join(passed)})", *after]
    return "\n".join([*lines, "  ret void", "}", ""])


def _back_and_forth(slot: int) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """The same for places one by one, from the last to the first in odd rounds.

    The number of the round is in this slot of the frame.
    """
    lines = [
        f"  %round.at = getelementptr i64, ptr %frame, i64 {slot}",
        "  %round = load i64, ptr %round.at",
        "  %odd = trunc i64 %round to i1",
        "  %highest = sub i64 %hi, 1",
        "  br label %next",
        "next:",
        "  %up = phi i64 [%lo, %0], [%higher, %place]",
        "  %down = phi i64 [%highest, %0], [%lower, %place]",
        "  %some = icmp slt i64 %up, %hi",
        "  br i1 %some, label %place, label %done",
        "place:",
        "  %at = select i1 %odd, i64 %down, i64 %up",
        "  %stop = add i64 %at, 1",
    ]
    after = ["  %higher = add i64 %up, 1", "  %lower = sub i64 %down, 1", "  br label %next"]
    return lines, [("%at", "%stop")], [*after, "done:"]


def _boxes(extents: list[str]) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """Code before and after a call for each of the boxes that places from %lo to %hi make up.

    Places count through several axes, the last the fastest. Also gives the ends of a box along each
    axis. At each place the largest box is taken that begins there: all of the axes after some axis.
    """
    if len(extents) == 1:
        return [], [("%lo", "%hi")], []
    lines = ["  br label %next", "next:", "  %at = phi i64 [%lo, %0], [%then, %box]"]
    lines += ["  %some = icmp slt i64 %at, %hi", "  br i1 %some, label %box, label %done", "box:"]
    lines.append("  %left = sub i64 %hi, %at")
    sizes = ["1"]  # the places of a round of all axes after one
    for k in range(len(extents) - 1, 0, -1):
        lines.append(f"  %size{k - 1} = mul i64 {sizes[0]}, {extents[k]}")
        sizes.insert(0, f"%size{k - 1}")
    bounds: list[tuple[str, str]] = []
    inside, moved = "false", "0"  # whether an axis before has a run, and the places of that
    for k, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        lines += [
            f"  %rounds{k} = udiv i64 %at, {size}",
            f"  %digit{k} = urem i64 %rounds{k}, {extent}",
            # an axis has a run where a round of those after it begins, and as many as are left
            f"  %past{k} = urem i64 %at, {size}",
            f"  %begins{k} = icmp eq i64 %past{k}, 0",
            f"  %fits{k} = icmp uge i64 %left, {size}",
            f"  %able{k} = and i1 %begins{k}, %fits{k}",
            f"  %whole{k} = udiv i64 %left, {size}",
            f"  %until{k} = sub i64 {extent}, %digit{k}",
            f"  %fewer{k} = icmp ult i64 %whole{k}, %until{k}",
            f"  %run{k} = select i1 %fewer{k}, i64 %whole{k}, i64 %until{k}",
            f"  %length{k} = select i1 %able{k}, i64 %run{k}, i64 1",
            f"  %stop{k} = add i64 %digit{k}, %length{k}",
            f"  %lo{k} = select i1 {inside}, i64 0, i64 %digit{k}",
            f"  %hi{k} = select i1 {inside}, i64 {extent}, i64 %stop{k}",
            f"  %places{k} = mul i64 %run{k}, {size}",
            f"  %moved{k} = select i1 {inside}, i64 {moved}, i64 %places{k}",
            f"  %inside{k} = or i1 {inside}, %able{k}",
        ]
        bounds.append((f"%lo{k}", f"%hi{k}"))
        inside, moved = f"%inside{k}", f"%moved{k}"
    after = [f"  %then = add i64 %at, {moved}", "  br label %next", "done:"]
    return lines, bounds, after
