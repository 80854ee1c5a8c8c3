"""Copy operands of contractions into the order in which their tiles read them.

    %w : f32[256,64,3,3] read at [32*co + ci, k, kh, kw]
    -->   %p : f32[8,3,3,64,32] read at [co, kh, kw, k, ci]

The copy is an ordinary generic; where the operand is a constant it is folded at once, so weights
are packed at compile time, and where it is not, the copy is a kernel of its own before the
contraction. Which are packed, and how far ahead they are fetched, the group's schedule says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minicc.ir import affine
from minicc.ir.core import Literal, Module, Op, Region, Value, computed
from minicc.ir.index_maps import contiguous_name, names_of
from minicc.ir.rewrite import live
from minicc.ir.scan import lift
from minicc.ir.schedule import Packing
from minicc.ir.space import PARALLEL, REDUCTION, Iter, Space
from minicc.ir.structured import Constant, Generic, Group, If, Scan
from minicc.ir.types import TensorType

_LINE = 64  # elements of a free dimension that a copy handles at once
_MOST = 256  # elements of a known one: each vector is code
_SQUARE = 16  # rows and columns that are turned in registers
_LABEL = "pack"  # of the groups that copy what is not constant


def pack(module: Module) -> Module:
    """Pack what the schedules of groups say."""
    return Module(module.level, [f.with_body(_pack_region(f.body, {})) for f in module.functions])


def _pack_region(region: Region, constants: dict[Value, Literal]) -> Region:
    out: list[Op] = []
    forward: dict[Value, Value] = {}
    for op in region.ops:
        fresh = op.rebuilt([forward.get(v, v) for v in op.operands])
        if isinstance(fresh, Group):
            fresh = _pack_group(fresh, constants, out)
        elif isinstance(fresh, Scan):
            moved, fresh = _pack_scan(fresh, constants)
            out += moved
        elif isinstance(fresh, If):
            for inner in fresh.regions:
                pairs = zip(inner.args, fresh.captured, strict=True)
                constants.update({a: constants[v] for a, v in pairs if v in constants})
            fresh = fresh.with_regions([_pack_region(r, constants) for r in fresh.regions])
        elif isinstance(fresh, Constant):
            constants[fresh.result] = fresh.value
        for old, new in zip(op.results, fresh.results, strict=True):
            new.hint = old.hint
            forward[old] = new
        out.append(fresh)
    yields = [forward.get(v, v) for v in region.yields]
    return Region(region.args, live(out, yields), yields)


def _pack_scan(scan: Scan, constants: dict[Value, Literal]) -> tuple[list[Op], Scan]:
    """The loop with its body packed; what is packed of something captured is packed before it."""
    captured = scan.body.args[scan.first :]
    pairs = zip(captured, scan.operands[scan.first :], strict=True)
    constants.update({inner: constants[outer] for inner, outer in pairs if outer in constants})
    packed = scan.with_regions([_pack_region(scan.body, constants)])
    yields = {*packed.body.yields}
    moved, scan = lift(packed, lambda op: _is_packing(op) and yields.isdisjoint(op.results))
    constants.update({op.result: op.value for op in moved if isinstance(op, Constant)})
    return moved, scan


def _is_packing(op: Op) -> bool:
    return isinstance(op, Constant) or (isinstance(op, Group) and op.label == _LABEL)


def _pack_group(group: Group, constants: Mapping[Value, Literal], out: list[Op]) -> Group:
    plan = group.schedule
    if plan is None:
        return group
    packs: Sequence[Packing] = plan.packs
    for position, k, distance in packs:
        op = group.body.ops[position]
        assert isinstance(op, Generic)
        outer = group.operands[group.body.args.index(op.operands[k])]
        names = _order(op, k)
        copy = _copy(op, k, names, outer)
        if outer in constants:
            literal = computed(copy, [constants[outer]], lambda region, args: (args[0],))
            packed: Op = Constant(value=literal, loc=op.loc)
        else:
            packed = _alone(copy)
        out.append(packed)
        group = _read_packed(group, position, k, names, packed.results[0], distance)
    for copies, (position, k) in enumerate(sorted(plan.promotes)):
        group = _promote(group, position + copies, k)  # each stands before its op
    return group.with_regions(group.regions, schedule=plan.packed())


def _promote(group: Group, position: int, k: int) -> Group:
    """The group with a copy of what an instance reads of an operand, which is made in the instance.

    The copy goes through the operand as it lies.
    """
    op = group.body.ops[position]
    assert isinstance(op, Generic)
    own = [n for n in _order(op, k) if n not in group.shared]
    names = [*group.shared, *own]
    copy = _copy(op, k, names, op.operands[k])
    at_once = _at_once(copy)
    lies = {n: axis for axis, e in enumerate(op.input_maps[k]) for n in affine.symbols(e)}
    loops = sorted(own, key=lambda n: (n in at_once, lies[n]))
    space = Space(copy.space[n] for n in (*group.shared, *loops))
    copy = copy.rebuilt(copy.operands, space=space, tile=tuple(at_once.items()))
    reading = _reading(op, k, copy.result, names)
    body = _replaced(group.body, op, copy, reading)
    return group.rebuilt(group.operands, (body,))


def _order(op: Generic, operand: int) -> list[str]:
    """The operand's dimensions as the loops run.

    Blocks that a loop goes around, grid, reductions, and within a tile the contiguous one last.
    """
    used = names_of(op.input_maps[operand])
    tiles = dict(op.tile)
    last = contiguous_name(op.yield_maps[0])
    # where what is summed is read in vectors, these are along the sums
    reduced = {i.name for i in op.space.of_kind(REDUCTION)}
    along = [n for n in map(contiguous_name, op.input_maps) if n in reduced and n in tiles]
    last = next((n for n in along if tiles[str(n)] > tiles.get(str(last), 1)), last)
    blocks = [n for n, size in op.around if size == 1]
    order = sorted(
        (n for n in op.space.names if n in used and n not in tiles),
        key=lambda n: (n == last) - (n in blocks),
    )
    return order + sorted((n for n in tiles if n in used), key=lambda n: n == last)


def _copy(op: Generic, operand: int, names: list[str], source: Value) -> Generic:
    space = Space(Iter(n, op.space[n].extent, PARALLEL) for n in names)
    identity = tuple(affine.symbol(n) for n in names)
    element = Value(TensorType(source.type.dtype))
    return Generic(
        (source,),
        space=space,
        maps=(op.input_maps[operand], identity),
        shapes=(tuple(space[n].extent for n in names),),
        combine=(None,),
        body=Region((element,), (), (element,)),
        loc=op.loc,
    )


def _at_once(copy: Generic) -> dict[str, int]:
    """What a copy handles at once: vectors of the dimension along which it writes.

    Where the source is contiguous along another one, squares of both are turned.
    """
    names, extents = copy.space.names, copy.space.typical
    turned, last = contiguous_name(copy.input_maps[0]), names[-1]
    if turned in names[:-1] and min(extents[str(turned)], extents[last]) >= _SQUARE:
        return {str(turned): _SQUARE, last: _SQUARE}
    known = isinstance(copy.space[last].extent, int)
    return {last: min(extents[last] or 1, _MOST) if known else _LINE}


def _alone(copy: Generic) -> Group:
    """The copy as a group of its own, whose instances share what is not handled at once."""
    tile = _at_once(copy)
    arg = Value(copy.operands[0].type)
    inner = copy.rebuilt([arg], tile=tuple(tile.items()))
    body = Region((arg,), (inner,), inner.results)
    shared = tuple(n for n in copy.space.names if n not in tile)
    return Group(copy.operands, shared=shared, label=_LABEL, body=body, loc=copy.loc)


def _reading(
    op: Generic, k: int, packed: Value, names: Sequence[str], distance: int = 0
) -> Generic:
    """An op that reads one of its operands from a copy, whose axes are dimensions."""
    operands, maps = list(op.operands), list(op.maps)
    operands[k], maps[k] = packed, tuple(affine.symbol(n) for n in names)
    ahead = [found for found in op.ahead if found[0] != k] + [(k, distance)] * bool(distance)
    return op.rebuilt(operands, maps=tuple(maps), ahead=tuple(ahead))


def _replaced(region: Region, op: Op, *others: Op) -> Region:
    """A group's body with other ops in the place of one; the last of them gives its results."""
    forward: dict[Value, Value] = {}
    ops: list[Op] = []
    for old in region.ops:
        for new in others if old is op else (old,):
            ops.append(new.rebuilt([forward.get(v, v) for v in new.operands]))
            forward.update(zip(new.results, ops[-1].results, strict=True))
        forward.update(zip(old.results, ops[-1].results, strict=True))
    return Region(region.args, ops, [forward.get(v, v) for v in region.yields])


def _read_packed(
    group: Group, position: int, operand: int, names: list[str], packed: Value, distance: int
) -> Group:
    op = group.body.ops[position]
    assert isinstance(op, Generic)
    arg, old = Value(packed.type, "packed"), op.operands[operand]
    body = _replaced(group.body, op, _reading(op, operand, arg, names, distance))
    pairs = [
        (a, v)
        for a, v in zip(group.body.args, group.operands, strict=True)
        if a is not old or any(old in op.operands for op in body.ops)
    ]
    args = [a for a, _ in pairs] + [arg]
    body = Region(args, body.ops, body.yields)
    return group.rebuilt([v for _, v in pairs] + [packed], (body,))
