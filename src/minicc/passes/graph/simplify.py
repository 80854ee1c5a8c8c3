"""Apply the named rules while rebuilding, each op until no rule matches.

Common and unused ops vanish on the way.

    %t = transpose(transpose(x, p), q)   -->   %t = transpose(x, p[q])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from minicc.errors import CompilerBug
from minicc.ir.core import Function, Module, Op, Value
from minicc.ir.graph import Constant, Elementwise, InsertSlice
from minicc.ir.rewrite import Rebuilder, everywhere, merge_locations, rebuild
from minicc.passes.graph.applications import Applications
from minicc.passes.graph.rules import RULES, Producer, Rule
from minicc.passes.graph.written_parts import Writes, read_before_writes

_MOST = 64  # rule applications at one op before we call it a loop


def simplify(
    module: Module,
    strict: bool = False,
    log: Applications | None = None,
    rules: Sequence[Rule] = RULES,
) -> Module:
    """Apply all rules (`strict`: the exact ones) to every function.

    `log` numbers the applications, and may allow only the first of them.
    """
    by_root: dict[type[Op], list[Rule]] = {}
    for rule in rules:
        if rule.kind == "exact" or not strict:
            by_root.setdefault(rule.root, []).append(rule)
    kept = log or Applications()

    def one(function: Function) -> Function:
        return _simplify(read_before_writes(function), by_root, kept)

    return Module(module.level, [everywhere(f, one) for f in module.functions])


def _simplify(function: Function, rules: dict[type[Op], list[Rule]], log: Applications) -> Function:
    made: dict[Value, Op] = {}
    old = [*function.body.yields]
    for op in function.body.ops:
        old += {*op.operands}
    readers = Counter(old)
    counts: Counter[Value] = Counter()  # of the values that take their places
    writes = Writes()

    def producer(v: Value) -> Op | None:
        return made.get(v)

    def alone(v: Value) -> Op | None:
        op = made.get(v)
        return op if counts[v] < 2 or isinstance(op, Constant) else None

    def note(b: Rebuilder, start: int) -> None:
        for op in b.ops[start:]:
            for result in op.results:
                made[result] = op
            if isinstance(op, InsertSlice):
                writes.note(op.x, op)

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
        values = simplified(b, op, operands)
        for v, new in zip(op.results, values, strict=True):
            counts[new] += readers[v]
        return values

    def simplified(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
        start = len(b.ops)
        current = op if operands == op.operands else op.rebuilt(operands)
        if isinstance(current, InsertSlice):
            current = writes.chained(current)
            counts[current.x] += current.x is not operands[0]  # it has another reader
        current = b.add(current)
        if isinstance(current, InsertSlice):
            writes.note(operands[0], current)
        note(b, start)
        for _ in range(_MOST):
            applied = _apply_first(b, current, rules.get(type(current), ()), producer, alone, log)
            if applied is None:
                return current.results
            note(b, start)
            following = made.get(applied)
            if following is None or len(following.results) != 1:
                return (applied,)
            current = following
        raise CompilerBug(
            "MC0307", f"rules do not end at {op.opname}", where=op.loc, stage="simplify"
        )

    return rebuild(function, visit)


def _apply_first(
    b: Rebuilder,
    op: Op,
    rules: Sequence[Rule],
    producer: Producer,
    alone: Producer,
    log: Applications,
) -> Value | None:
    exact = isinstance(op, Elementwise) and all(n == 1 for n in op.result.type.shape)
    for rule in rules:
        if exact and rule.kind != "exact":
            continue  # sizes may follow from a number, and saving instructions for it is nothing
        found = rule.match(op, alone if rule.alone else producer)
        if found is None or not log.admit(rule.name, op.loc):
            continue
        outer = b.loc
        b.loc = merge_locations(_location_of(found), op.loc)
        value = rule.build(b, op, found)
        b.loc = outer
        return value
    return None


def _location_of(found: object) -> tuple[str, ...]:
    parts = found if isinstance(found, tuple) else (found,)
    return merge_locations(*[p.loc for p in parts if isinstance(p, Op)])
