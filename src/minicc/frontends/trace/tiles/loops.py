"""`tl.range` in a `for` statement: a loop of the kernel.

The body is recorded once, with the round's number as an `Index`. Names that are bound to tiles
before the loop and bound anew in it are carried from round to round; after the loop they have the
last round's tiles. Everything else that the body makes is unknown after it.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from typing import Any

from minicc.frontends.trace.capture import Site
from minicc.frontends.trace.loop_code import loop_at
from minicc.frontends.trace.tiles.numbers import Index, dim_of
from minicc.frontends.trace.tiles.recording import Recording, Scope, current, wrong
from minicc.frontends.trace.tiles.tile import Tile, tile_type
from minicc.ir import affine, kernel
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import inline, live


def rounds(start: Any, stop: Any, step: int) -> Iterator[Any]:
    """The items of a loop for the `for` statement that asks for them."""
    frame = sys._getframe(2)
    # while it calls a function of Python, a frame may stand behind its instruction
    steps = dis.get_instructions(frame.f_code)
    at = max(s.offset for s in steps if s.offset <= frame.f_lasti)
    code = loop_at(frame.f_code, at, True)
    if code is None or code.refused:
        why = f"it {code.refused}" if code else "it stands in no `for` statement"
        wrong("MC0197", f"tl.range is no loop of the kernel: {why}", "range writes rounds out")
    if not isinstance(step, int) or step < 1:
        wrong("MC0194", f"tl.range in steps of {step}", "steps are numbers of at least 1")
    return _rounds(current(), Site(frame, code), dim_of(start), dim_of(stop), step)


def _rounds(recording: Recording, site: Site, lo: Dim, hi: Dim, step: int) -> Iterator[Any]:
    if isinstance(lo, int) and isinstance(hi, int) and hi <= lo:
        return
    before = site.names()
    wanted = sorted(site.code.carried | site.code.left)
    carried = {n: t for n in wanted if isinstance(t := before.get(n), Tile) and t.is_known}
    around = recording.scope
    inits = {n: Tile(t.value, around, tile_type(t)) for n, t in carried.items()}
    scope = Scope()
    args = {n: Value(tile_type(t), n) for n, t in carried.items()}
    inside = {n: Tile(v, scope, v.type) for n, v in args.items()}
    recording.scopes.append(scope)
    name = recording.fresh()
    index = recording.indices[name]
    site.bind(dict(inside))
    item = Index(affine.symbol(name))
    yield item
    after = site.names()
    changed = [n for n in carried if after.get(n) is not inside[n]]
    yields = [_handed_on(n, carried[n], after.get(n), site) for n in changed]
    for n in wanted:
        if n not in carried and isinstance(before.get(n), int | float | Index):
            _require_same(n, before[n], after.get(n), site)
    recording.scopes.pop()
    scope.closed = True
    del recording.indices[name]
    b = Builder(scope.b.loc)
    body = Region((index, *args.values()), live(scope.b.ops, yields), yields)
    here = (n for n, x in after.items() if x is item)
    fresh = Value(index.type, next(here, ""))
    new = [Value(args[n].type, n) for n in changed]
    given = dict(zip(changed, new, strict=True))
    fixed = [given.get(n, inits[n].value) for n in carried]
    made = inline(b, body, (fresh, *fixed))
    region = Region((fresh, *new), b.ops, made)
    op = _loop(recording, [inits[n].value for n in changed], region, (lo, hi, step), site)
    results = zip(changed, op.results, strict=True)
    left = {n: Tile(r, around, r.type) for n, r in results}
    site.bind({**{n: carried[n] for n in carried if n not in changed}, **left})


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


def _handed_on(name: str, before: Tile, after: Any, site: Site) -> Value:
    """What a round hands on under a name, of the type that the round takes."""
    if not isinstance(after, Tile):
        wrong("MC0198", f"{name} is {before!r} before the loop at {site}, and {after!r} after it")
    if tile_type(after) != tile_type(before):
        text = f"{name} is {tile_type(before)} before the loop at {site}, and a round makes"
        wrong("MC0198", f"{text} {tile_type(after)} of it", "begin it with tl.full of that shape")
    return after.value


def _require_same(name: str, before: Any, after: Any, site: Site) -> None:
    if after is not before and not (isinstance(after, int | float) and after == before):
        text = f"{name} is {before!r} before the loop at {site}, and another after a round"
        hint = "what rounds hand on are tiles; tl.full makes one"
        wrong("MC0198", text, hint)
