"""`tl.range` in a `for` statement: a loop of the kernel.

The body is recorded once, with the round's number as an `Index`. Names that are bound to tiles (or
to lists or tuples of them) before the loop and anew in it are carried from round to round; after
the loop they have the last round's tiles. Everything else that the body makes is unknown after it.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

from minicc.frontends.trace.loops.code import LoopCode, loop_at
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.tiles.numbers import Index, dim_of
from minicc.frontends.trace.tiles.recording import Recording, Scope, current, wrong
from minicc.frontends.trace.tiles.tile import Tile, tile_type
from minicc.ir import affine, kernel
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import live


def rounds(start: Any, stop: Any, step: int) -> Iterator[Any]:
    """The items of a loop for the `for` statement that asks for them."""
    frame = sys._getframe(2)
    code = _loop_around(frame.f_code, frame.f_lasti)
    if code is None or code.refused:
        why = f"it {code.refused}" if code else "it stands in no `for` statement"
        wrong("MC0197", f"tl.range is no loop of the kernel: {why}", "range writes rounds out")
    if not isinstance(step, int) or step < 1:
        wrong("MC0194", f"tl.range in steps of {step}", "steps are numbers of at least 1")
    return _rounds(current(), Site(frame, code), dim_of(start), dim_of(stop), step)


@lru_cache(512)
def _loop_around(code: CodeType, at: int) -> LoopCode | None:
    """The `for` that asks for what a frame is calling.

    While it calls a function of Python's, a frame may stand after its instruction.
    """
    called = max(s.offset for s in dis.get_instructions(code) if s.offset <= at)
    return loop_at(code, called, True)


def _rounds(recording: Recording, site: Site, lo: Dim, hi: Dim, step: int) -> Iterator[Any]:
    if isinstance(lo, int) and isinstance(hi, int) and hi <= lo:
        return
    before = site.names()
    lists = {n for n, x in before.items() if type(x) is list}  # which change without being bound
    wanted = sorted((site.code.carried | site.code.left) & (site.code.bound | lists))
    carried = {n: found for n in wanted if (found := _tiles(before.get(n)))}
    around, scope = recording.scope, Scope()
    inits = [t.value for found in carried.values() for t in found]
    args = [Value(tile_type(t), n) for n, found in carried.items() for t in found]
    inside = iter([Tile(v, scope, v.type) for v in args])
    recording.scopes.append(scope)
    name = recording.fresh()
    index = recording.indices[name]
    site.bind({n: _like(before[n], inside) for n in carried})
    item = Index(affine.symbol(name))
    yield item
    after = site.names()
    made = [t for n in carried for t in _handed_on(n, before[n], after.get(n), site)]
    for n in wanted:
        if n not in carried:
            _require_same(n, before.get(n), after.get(n), site)
    recording.scopes.pop()
    del recording.indices[name]
    yields = [t.value for t in made]
    scope.closed = True
    index.hint = next((n for n, x in after.items() if x is item), "")
    body = Region((index, *args), live(scope.b.ops, yields), yields)
    op = _loop(recording, inits, body, (lo, hi, step), site)
    left = iter([Tile(result, around, result.type) for result in op.results])
    site.bind({n: _like(before[n], left) for n in carried})


def _tiles(x: Any) -> list[Tile]:
    """The tiles that a name stands for, alone or in a list or tuple; none for all else."""
    found = x if type(x) in (list, tuple) else [x]
    return list(found) if all(type(t) is Tile and t.is_known for t in found) else []


def _like(x: Any, tiles: Iterator[Tile]) -> Any:
    """The next of some tiles, in a list or tuple where `x` is one."""
    return type(x)([next(tiles) for _ in x]) if type(x) in (list, tuple) else next(tiles)


def _loop(
    recording: Recording,
    inits: list[Value],
    body: Region,
    ends: tuple[Dim, Dim, int],
    site: Site,
) -> Op:
    lo, hi, step = ends
    where = (str(site),)
    if isinstance(lo, int) and isinstance(hi, int):
        op: Op = kernel.For(inits, lo=lo, hi=hi, step=step, body=body, loc=where)
    else:
        placed = [recording.addressed([n]) for n in (lo, hi)]
        start, stop = [recording.emit(kernel.Index, vs, value=e) for vs, (e,) in placed]
        op = kernel.Range(start, stop, inits, step=step, body=body, loc=where)
    recording.scope.b.add(op)
    return op


def _handed_on(name: str, before: Any, after: Any, site: Site) -> list[Tile]:
    """What a round hands on under a name, of the types that the round takes."""
    old, new = _tiles(before), _tiles(after)
    if len(old) != len(new) or type(before) is not type(after):
        told = [f"a {type(x).__name__} of {len(_tiles(x))} tiles" for x in (before, after)]
        wrong("MC0198", f"{name} is {told[0]} before the loop at {site}, {told[1]} after a round")
    for was, now in zip(old, new, strict=True):
        if tile_type(now) != tile_type(was):
            text = f"{name} is {tile_type(was)} before the loop at {site}, and a round makes"
            hint = "begin it with tl.full of that shape and type"
            wrong("MC0198", f"{text} {tile_type(now)} of it", hint)
    return new


def _require_same(name: str, before: Any, after: Any, site: Site) -> None:
    """UserError (MC0198) where a round binds anew what is no tile, and was bound before."""
    if isinstance(before, Tile) and not before.is_known:
        return  # of an earlier loop
    if not isinstance(before, int | float | Index | Tile) or after is before:
        return
    if not (isinstance(before, int | float) and isinstance(after, int | float) and after == before):
        text = f"{name} is {before!r} before the loop at {site}, and another after a round"
        hint = "what rounds hand on are tiles; tl.full makes one"
        wrong("MC0198", text, hint)
