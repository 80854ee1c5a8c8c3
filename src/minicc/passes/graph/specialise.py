"""Bind the free dimensions of shapes whose sizes are given; the others become sizes of the program.

%y = graph.add %x, %b : f32[batch,64]   --batch=8-->   f32[8,64]
                                        -- free -->    f32[$batch,64]
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from minicc.errors import UserError
from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.bind import bind
from minicc.ir.core import Function, Module, walk
from minicc.ir.graph import bound_by
from minicc.ir.graph.demands import equal_extents

_MOST_TURNS = 16  # of settling sizes, each of which may settle others


def free_symbols(function: Function) -> tuple[str, ...]:
    """The symbols in the types of a function's arguments, in order of appearance."""
    found: dict[str, None] = {}
    for a in function.args:
        for n in a.type.shape:
            found.update(dict.fromkeys(sorted(affine.symbols(n))))
    return tuple(found)


def specialise(module: Module, binding: Mapping[str, int]) -> Module:
    """The module with numbers for some symbols, and all others named as sizes of the program.

    Types are inferred anew, so sizes that contradict each other are found here: UserError MC0142.
    Sizes that must be equal get one name, but not those of a function that is `settled`.
    """
    return Module(module.level, [_bind(f, binding) for f in module.functions])


def _bind(function: Function, binding: Mapping[str, int]) -> Function:
    free = free_symbols(function)
    inside = "sizes" in function.attrs or any(map(bound_by, walk(function.body)))
    if not free and not inside:
        return function
    sizes: dict[str, Dim] = {name: affine.size(name) for name in free}
    for name, n in binding.items():
        sizes |= {name: n, affine.spell_size(name): n}
    bound = _with_demands(bind(function, sizes), binding)
    if "settled" in function.attrs:
        return bound
    for _ in range(_MOST_TURNS):
        settled = _settled(bound)
        if settled is bound:
            break
        bound = _with_demands(settled, binding)
    return bound


def _with_demands(function: Function, binding: Mapping[str, int]) -> Function:
    """The function with what sizes still to come may fail alone, and nothing for this pass."""
    changed = {
        "sizes": function.attrs.get("sizes", ()),
        "demands": _unmet(function, binding),
        "settled": False,
    }
    attrs = {k: v for k, v in {**function.attrs, **changed}.items() if v or k not in changed}
    return Function(function.name, function.body, attrs, function.result_names)


def _unmet(function: Function, binding: Mapping[str, int]) -> tuple[tuple[Dim, Dim], ...]:
    """The demands that sizes still to come may fail; MC0142 for one that these do."""
    pairs = [(a, b) for a, b in function.attrs.get("demands", ()) if a != b]
    for a, b in pairs:
        if isinstance(a, int) and isinstance(b, int):
            told = ", ".join(f"{name}={n}" for name, n in binding.items())
            text = f"the sizes {told or 'of its inputs'} do not fit the graph for all sizes"
            raise UserError("MC0142", text, hint="give inputs of other shapes")
    return tuple(pairs)


def _settled(function: Function) -> Function:
    """The function with one name, or a number, for sizes that must be equal."""
    solved: dict[str, Dim] = {}
    # those that no argument has are bound where no type can say that they are equal to others
    given = function.attrs.get("sizes", ())
    wanted = (equal_extents(op) for op in walk(function.body))
    for pair in chain(function.attrs.get("demands", ()), chain.from_iterable(wanted)):
        left, right = sorted((affine.substitute(n, solved) for n in pair), key=_plainness)
        name = _name(right)
        if name and name not in given and left != right and _plainness(left) < 2:
            solved = {n: affine.substitute(v, {name: left}) for n, v in solved.items()}
            solved[name] = left
    return bind(function, solved) if solved else function


def _name(value: Dim) -> str:
    """The symbol that an expression is; "" where it is more or less than one."""
    names = affine.symbols(value)
    name = next(iter(names)) if len(names) == 1 else ""
    return name if name and value == affine.symbol(name) else ""


def _plainness(value: Dim) -> int:
    """Numbers first, then symbols, which may be put in place of others; then what is neither."""
    return 0 if isinstance(value, int) else 1 if _name(value) else 2
