"""Arithmetic on shapes that may hold symbols; what the type rules of the dialect share.

Two extents are *certainly different* only where their difference is a number other than 0. What
can't be told while symbols are free is let pass: binding them (`specialise`) builds the op again,
and the same type rule then compares numbers.
"""

from __future__ import annotations

from functools import reduce

from minicc.ir import affine
from minicc.ir.affine import Compound, Dim, Expr
from minicc.ir.affine_facts import greater

Shape = tuple[Dim, ...]


def show(shape: Shape) -> str:
    """A shape as types print it: `[n,3,8]`."""
    return f"[{','.join(map(str, shape))}]"


def product(shape: Shape) -> Dim:
    """The number of elements."""
    count: Dim = 1
    for extent in shape:
        count = affine.multiply(count, extent)
    return count


def differ(left: Dim, right: Dim) -> bool:
    """Whether two extents are different whatever the symbols are."""
    if left == right:
        return False
    gap = affine.add(left, affine.multiply(right, -1))
    return isinstance(gap, int) and gap != 0


def check_axis(opname: str, axis: int, rank: int) -> None:
    """ValueError where an op names an axis that there is not."""
    if not 0 <= axis < rank:
        raise ValueError(f"{opname} has no axis {axis} at rank {rank}")


def agree(left: Dim, right: Dim) -> Dim:
    """The extent that both must be, a number where one is known; TypeError where they differ."""
    if differ(left, right):
        raise TypeError(f"extents {left} and {right} differ")
    return left if isinstance(left, int) else right if isinstance(right, int) else left


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape by NumPy's rules; TypeError where extents differ and neither is 1.

    Of a number other than 1 and a symbol the number stays. Two unlike symbolic extents give the
    greater of them, which is what broadcasting yields unless one is bound to 0 and the other to 1.
    """
    first = shapes[0] if shapes else ()
    if all(shape == first for shape in shapes):
        return first
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    try:
        return tuple([reduce(_broadcast, column) for column in zip(*aligned, strict=True)])
    except TypeError as error:
        raise TypeError(f"shapes {' and '.join(map(show, shapes))} do not broadcast") from error


def _broadcast(left: Dim, right: Dim) -> Dim:
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) or isinstance(right, int):
        return agree(left, right)
    # A maximum that holds the other already stays as it is: else a chain of n additions would
    # give an expression of 2**n terms.
    if right in _maximum_of(left):
        return left
    if left in _maximum_of(right):
        return right
    # The maximum of a minimum and of one of its parts is that part: a slice kept within its axis.
    if right in _minimum_of(left):
        return right
    if left in _minimum_of(right):
        return left
    return greater(left, right)


def _maximum_of(value: Dim) -> set[Dim]:
    """The extents of which `value` is the maximum as `_broadcast` writes it, and itself."""
    found = {value}
    for monomial, coefficient in value.terms if isinstance(value, Expr) else ():
        atom = monomial[0]
        if coefficient != -1 or len(monomial) > 1:
            continue
        if isinstance(atom, Compound) and atom.kind == "min":
            left, right = atom.args
            if value == left + right - affine.minimum(left, right):
                found |= _maximum_of(left) | _maximum_of(right)
    return found


def _minimum_of(value: Dim) -> tuple[Dim, ...]:
    """The extents of which `value` is the minimum."""
    if isinstance(value, Expr) and value.is_atom():
        atom = value.terms[0][0][0]
        if isinstance(atom, Compound) and atom.kind == "min":
            return atom.args
    return ()


def window_extent(extent: Dim, size: Dim, stride: int, dilation: int) -> Dim:
    """How many windows of `size` taps fit into `extent`; ValueError where not even one does."""
    if stride < 1 or dilation < 1:
        raise ValueError(f"stride {stride} and dilation {dilation} must be at least 1")
    reach = (size - 1) * dilation + 1
    room = extent - reach
    # An axis of extent 0 that is not pooled (an empty batch) has no windows, and that is fine.
    fits = not isinstance(room, int) or room >= 0 or (extent == 0 and size == 1)
    if not fits or (isinstance(size, int) and size < 1):
        raise ValueError(f"a window of {size} at dilation {dilation} does not fit into {extent}")
    return room // stride + 1
