"""Makes a failing case small while it fails in the same way.

Nodes go first: the outputs of one that is left out become inputs that hold what it gave. Then
sizes: each extent is cut wherever it occurs. Then values: inputs become zeros and ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tests.generate.draft import Case, Item, evaluate, every_node, names_in, needed
from tests.generate.source import Array

T = TypeVar("T")


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The smallest model that is found for which `fails` still holds."""
    return shrunk(case, fails, _smaller)


def shrunk(
    case: T,
    fails: Callable[[T], bool],
    smaller_ones: Callable[[T], Iterator[T]],
    most: int = 300,
    seconds: float = 60,
) -> T:
    """The smallest case found in so many tries, or seconds, for which `fails` still holds."""
    tries = 0
    changed = True
    end = time.monotonic() + seconds
    while changed and tries < most:
        changed = False
        for smaller in smaller_ones(case):
            tries += 1
            if fails(smaller):
                case, changed = smaller, True
                break
            if tries >= most or time.monotonic() > end:
                return case
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases that are a little smaller, the boldest first."""
    if len(case.outputs) > 1:
        for name in case.outputs:
            yield _pruned(replace(case, outputs=(name,)))
    for k in reversed(range(len(case.nodes))):
        if smaller := _without(case, k):
            yield smaller
    if case.symbols:
        yield replace(case, symbols={})
    for extent in sorted({n for a in _arrays(case) for n in a.shape if n > 1}, reverse=True):
        for to in (1, extent // 2, extent - 1):
            if 0 < to < extent and (smaller := _cut(case, extent, to)):
                yield smaller
    for name, a in case.inputs.items():
        for fill in (0, 1):
            plain = np.full(a.shape, fill, a.dtype)
            if a.dtype.kind in "fiu" and a.tobytes() != plain.tobytes():
                if smaller := _evaluated(replace(case, inputs={**case.inputs, name: plain})):
                    yield smaller
                break


def _arrays(case: Case) -> list[Array]:
    used = case.used()
    return [a for k, a in {**case.inputs, **case.constants}.items() if k in used]


def _pruned(case: Case) -> Case:
    """Without the nodes that no output needs."""
    return replace(case, nodes=tuple(needed(case.nodes, case.outputs)))


def _without(case: Case, k: int) -> Case | None:
    """Without a node, whose outputs become inputs; None where they are known to nobody."""
    node = case.nodes[k]
    rest = [*case.nodes[:k], *case.nodes[k + 1 :]]
    read = {name for other in rest for name in names_in(other)}
    wanted = [name for name in node.output if name in read]
    if any(not isinstance(case.known[name].value, np.ndarray) for name in wanted) or not rest:
        return None
    outputs = tuple(name for name in case.outputs if name not in node.output)
    if not outputs:
        made = {name for other in rest for name in other.output}
        outputs = tuple(name for name in node.input if name in made)
    if not outputs:
        return None
    inputs = case.inputs | {name: case.known[name].array for name in wanted}
    return _pruned(replace(case, nodes=tuple(rest), inputs=inputs, outputs=outputs))


def _cut(case: Case, extent: int, to: int) -> Case | None:
    """Every extent of one size cut, where the graph is still valid then."""

    def cut(a: Array) -> Array:
        kept = a[tuple(slice(0, to) if n == extent else slice(None) for n in a.shape)]
        return np.array(kept)

    inputs = {k: cut(a) for k, a in case.inputs.items()}
    constants = {k: cut(a) for k, a in case.constants.items()}
    return _evaluated(replace(case, inputs=inputs, constants=constants))


def _evaluated(case: Case) -> Case | None:
    """The case with new values of everything; None where the reference fails."""
    known: dict[str, Item] = {k: Item(k, a) for k, a in {**case.inputs, **case.constants}.items()}
    for node in case.nodes:
        around = [known[name] for name in names_in(node) if name in known]
        values = evaluate(node, around, case.opset)
        if values is None and not any(n.domain for n in every_node([node])):
            return None
        for name, value in zip(node.output, values or [None] * len(node.output), strict=True):
            known[name] = replace(case.known[name], value=value)
    return replace(case, known=known)
