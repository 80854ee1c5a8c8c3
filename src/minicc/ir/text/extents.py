"""Dimensions from their text, as `str` of an expression spells them, by a parser of a page.

Files of compiled programs say sizes as text (`64*n + 3`), and are opened without the parser of the
IR and its grammar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from minicc.later import Later

if TYPE_CHECKING:
    from minicc.ir import affine, reals
    from minicc.ir.affine import Dim
else:
    affine = Later("minicc.ir.affine")
    reals = Later("minicc.ir.reals")

_NUMBER = r"\d+(?:\.\d*)?(?:e[-+]?\d+)?"
_TOKEN = re.compile(
    rf"\s*(?:({_NUMBER})|'((?:\\.|[^'\\])*)'|(\$?[A-Za-z_]\w*)|([-+*(),]))", re.ASCII
)
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


def spelled(dim: Dim) -> int | str:
    """A dimension as a number or as text that `dim_of` reads."""
    return dim if isinstance(dim, int) else str(dim)


def dim_of(text: object) -> Dim:
    """The dimension that a number or a text says; ValueError where it says none."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no dimension")
    parser = _Parser(text)
    found = parser.sum()
    if parser.next != "":
        raise ValueError(f"{text!r} is no dimension")
    return found


@lru_cache(1 << 12)
def symbol_of(extent: Dim) -> str:
    """The symbol that an extent is alone, for which a shape says the number; "" for others."""
    names = () if isinstance(extent, int) else extent.symbols()
    name = next(iter(names)) if len(names) == 1 else ""
    return name if name and extent == affine.symbol(name) else ""


def binding_of(shapes: Sequence[Sequence[Dim]], found: Sequence[Sequence[int]]) -> dict[str, int]:
    """The sizes that symbols have where shapes that hold them are these numbers."""
    binding: dict[str, int] = {}
    for shape, numbers in zip(shapes, found, strict=True):
        for extent, n in zip(shape, numbers, strict=True):
            if not isinstance(extent, int) and (name := symbol_of(extent)):
                binding[name] = n
    return binding


def spell_guard(left: Dim, right: Dim) -> str:
    """What two extents that must be equal say; the least of one and 0 is 0 where it is at least 0.

    The extent is written without a constant below 0: `n >= 1`, not `n - 1 >= 0`.
    """
    if right == 0 and not isinstance(left, int) and left.is_atom():
        (atom,), _ = left.terms[0]
        if not isinstance(atom, str) and 0 in atom.args:
            extent = atom.args[1 - atom.args.index(0)]
            least = 0 if isinstance(extent, int) else max(0, -extent.const)
            return f"{extent + least} >= {least}"
    return f"{left} = {right}"


def with_derived(binding: Mapping[str, Dim], derived: Sequence[tuple[str, Dim]]) -> dict[str, Dim]:
    """A binding of sizes with those that are computed from them, in order."""
    whole = dict(binding)
    for name, value in derived:
        whole[name] = affine.substitute(value, whole)
    return whole


def number_of(value: Dim, binding: Mapping[str, Dim]) -> int:
    """The number that a dimension is under a binding of all its symbols."""
    return value if isinstance(value, int) else int(affine.evaluate(value, binding))


def sizes_at(shapes: Sequence[Sequence[Dim]], values: Sequence[Any]) -> dict[str, int]:
    """The same for values, of which those with no extents may be anything."""
    pairs = [(s, np.shape(v)) for s, v in zip(shapes, values, strict=True) if s]
    return binding_of([s for s, _ in pairs], [n for _, n in pairs])


def extents_of(name: str, shape: Sequence[int]) -> dict[str, int]:
    """The shape of an input whose rank is not known, as sizes: its rank, and each extent."""
    return {f"{name}#": len(shape), **{f"{name}#{k}": n for k, n in enumerate(shape)}}


MOST_CONTENTS = 64  # elements of an input that may be the parameters of a node


def contents_of(name: str, array: Any) -> dict[str, int | str]:
    """The elements of an input by name, as sizes are given: floats as the text that is exact."""
    numbers = array.ravel().tolist()
    return {f"{name}[{k}]": n if isinstance(n, int) else repr(n) for k, n in enumerate(numbers)}


def numbers_of(name: str, count: int, binding: Mapping[str, int | str]) -> list[float] | None:
    """The elements of an input of which a binding has the contents; None where it has not."""
    if count > len(binding):  # an input of any length is asked for
        return None
    given = [binding.get(f"{name}[{k}]") for k in range(count)]
    numbers = [float(n) if isinstance(n, str) else n for n in given if n is not None]
    return numbers if len(numbers) == count else None


def is_content(name: str) -> bool:
    """Whether a name in a binding is that of an element of an input, and of no size."""
    return name.endswith("]")


class _Parser:
    """A recursive descent over the tokens of a text; `next` is the token ahead, "" at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.next = ""
        self._name: str | None = None
        self._step()

    def _step(self) -> str:
        """The token that was ahead."""
        taken = self.next
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                raise self._wrong()
            self.next, self._name = "", None
            return taken
        self._at = match.end()
        number, quoted, word, sign = match.groups()
        self._name = word
        if quoted is not None:
            self._name = _ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)), quoted)
        self.next = number or sign or word or "'"
        return taken

    def _wrong(self) -> ValueError:
        return ValueError(f"{self._text!r} is no dimension")

    def _expect(self, token: str) -> None:
        if self._step() != token:
            raise self._wrong()

    def sum(self) -> Dim:
        """Products with signs between them."""
        sign = self._step() if self.next == "-" else "+"
        total: Dim = 0
        while True:
            total = affine.add(total, affine.multiply(self.product(), -1 if sign == "-" else 1))
            if self.next not in ("+", "-"):
                return total
            sign = self._step()

    def product(self) -> Dim:
        """Factors, then at most one division of all of them."""
        total = self.factor()
        while self.next == "*":
            self._step()
            total = affine.multiply(total, self.factor())
        if self.next not in ("floordiv", "mod"):
            return total
        divide = affine.floordiv if self._step() == "floordiv" else affine.mod
        return divide(total, self.factor())

    def factor(self) -> Dim:
        """A number, a symbol, a minimum, a whole part, or a sum in parentheses."""
        name = self._name
        token = self._step()
        if token.isdecimal():
            return int(token)
        if token == "(" or (token == "min" and self.next == "("):
            if token == "min":
                self._step()
            inner = self.sum()
            if token == "min":
                self._expect(",")
                inner = affine.minimum(inner, self.sum())
            self._expect(")")
            return inner
        if token == "trunc" and self.next == "(":
            self._step()
            real = self.real()
            self._expect(")")
            if isinstance(real, float):
                raise self._wrong()
            return affine.whole(real)
        if name is None:
            raise self._wrong()
        return affine.symbol(name)

    def real(self) -> Any:
        """A float that sizes decide, or a constant in one."""
        negative = self.next == "-"
        token = self._step() + (self._step() if negative else "")
        if self.next != "(":
            if not re.fullmatch(f"-?{_NUMBER}", token, re.ASCII):
                raise self._wrong()
            return float(token)
        self._step()
        parts = [self.sum() if token in reals.LEAVES else self.real()]
        while self.next == ",":
            self._step()
            parts.append(self.real())
        self._expect(")")
        return reals.Real(token, *parts)
