"""Make branches small: choose the one that is known to run, and leave out what nobody reads.

    %c = constant true; %y = graph.if %c, %x { ^(%x): yield %x } { ^(%x): ... }   -->   %x

Constants go into the branches, where rules and folding see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minicc.ir import graph
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import Rebuilder, inline, live, substituted, used_by


def simplify_branch(
    b: Rebuilder, op: graph.If, constants: Mapping[Value, graph.Constant], kept: Sequence[bool]
) -> Sequence[Value | None]:
    """What the results of a branch became; None of one that nobody reads, as `kept` says."""
    known = constants.get(op.condition)
    if known is not None:
        return inline(b, op.then if known.value.array[()] else op.other, op.captured)
    numbers = [k for k, keep in enumerate(kept) if keep]
    small = [_small(region, op.captured, constants, numbers) for region in op.regions]
    used = [used_by(region) for region in small]
    pairs = [*zip(*[region.args for region in small], strict=True)]
    taken = [
        k
        for k, args in enumerate(pairs)
        if any(a in found for a, found in zip(args, used, strict=True))
    ]
    captured = [op.captured[k] for k in taken]
    then, other = (Region([r.args[k] for k in taken], r.ops, r.yields) for r in small)
    made = b.add(graph.If(op.condition, captured, then=then, other=other, loc=op.loc))
    results = dict(zip(numbers, made.results, strict=True))
    return [results.get(k) for k in range(len(kept))]


def _small(
    region: Region,
    captured: Sequence[Value],
    constants: Mapping[Value, graph.Constant],
    numbers: Sequence[int],
) -> Region:
    """A region with the constants that it captures, that yields its values of these numbers."""
    inside: list[Op] = []
    forward: dict[Value, Value] = {}
    for inner, outer in zip(region.args, captured, strict=True):
        if outer in constants:
            inside.append(constants[outer].rebuilt(()))
            forward[inner] = inside[-1].results[0]
    wanted = [region.yields[k] for k in numbers]
    ops, yields = substituted(region.ops, wanted, forward)
    return Region(region.args, live([*inside, *ops], yields), yields)
