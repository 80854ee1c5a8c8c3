"""Let ops read sums through views that only add or drop axes of one element.

    %x = generic(a) add   %v = reshape(x) : f32[8,1]   %y = generic(v) { maps = [[d0, 0], ...] }
    -->   %x = generic(a) add   %y = generic(x) { maps = [[d0], ...] }

What combines and what reads the view are neighbours then, which may be fused. What only moves or
computes elements is left: merged with its readers, it would be read where these stand, and if it is
of the state of a loop, that may have been written to before.
"""

from __future__ import annotations

from collections.abc import Mapping

from minicc.ir.affine import Dim
from minicc.ir.core import Region, Value
from minicc.ir.index_maps import Map
from minicc.ir.rewrite import live
from minicc.ir.structured import Generic, Reshape


def read_through(region: Region) -> Region:
    """The ops of a region, of which generics read no views that lie as the sums they are of."""
    forward: dict[Value, Value] = {}
    views: dict[Value, Value] = {}
    sums: set[Value] = set()
    ops = []
    for op in region.ops:
        fresh = op.rebuilt([forward.get(v, v) for v in op.operands]) if forward else op
        if isinstance(fresh, Generic) and not views.keys().isdisjoint(fresh.operands):
            fresh = _read_through(fresh, views)
        elif isinstance(fresh, Reshape) and _long(fresh.x) == _long(fresh.result):
            x = views.get(fresh.x, fresh.x)
            if x in sums:
                views[fresh.result] = x
        if isinstance(fresh, Generic) and any(fresh.combine):
            sums.update(fresh.results)
        for old, new in zip(op.results, fresh.results, strict=True):
            if old is not new:
                new.hint = new.hint or old.hint
                forward[old] = new
        ops.append(fresh)
    yields = [forward.get(v, v) for v in region.yields]
    return Region(region.args, live(ops, yields), yields)


def _long(value: Value) -> list[Dim]:
    """The extents of a value but for those that are 1."""
    return [n for n in value.type.shape if n != 1]


def _read_through(op: Generic, views: Mapping[Value, Value]) -> Generic:
    """The same op, which reads what some of its operands view."""
    maps = [_seen(v, m, views.get(v, v)) for v, m in zip(op.operands, op.input_maps, strict=True)]
    operands = [views.get(v, v) for v in op.operands]
    return op.rebuilt(operands, maps=(*maps, *op.yield_maps))


def _seen(view: Value, m: Map, x: Value) -> Map:
    """Where `x` is read by who reads a view of it at a map."""
    rest = iter([e for e, n in zip(m, view.type.shape, strict=True) if n != 1])
    return tuple([0 if n == 1 else next(rest) for n in x.type.shape])
