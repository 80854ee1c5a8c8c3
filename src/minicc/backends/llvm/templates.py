"""Kernels that differ in numbers alone are compiled once.

    %v = mul nsw i64 %g, 12544        in one kernel, and in another
    %v = mul nsw i64 %g, 28672
    -->   %v = mul nsw i64 %g, ptrtoint (ptr @n0 to i64)       where the linker knows @n0

Layers of a model often have one form and other sizes: a third of densenet's kernels have numbers
of their own and nothing else. Their text is compiled with a symbol for each number that differs.
LLVM knows that the symbol is a number of 31 bits, so it stands where the number would: as an
immediate operand or in an address. The linker then copies the code and writes the numbers in.

Numbers are left open where any number will do: in sums, products, bounds of loops, and distances
between addresses. Texts that differ in anything else are compiled apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

FUNCTION = "kernel"  # what a template calls the kernel

# bytes of elements between which a distance is counted
_BYTES = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}
_OPEN = re.compile(
    r"(= (?:add|sub|mul)(?: nuw)? nsw i64 %\S+, |= icmp slt i64 %\S+, "
    rf"|= getelementptr (?:inbounds )?(?:{'|'.join(_BYTES)}), ptr %\S+, i64 )(\d+)$",
    re.MULTILINE,
)
_ELEMENT = re.compile(rf"({'|'.join(_BYTES)}), ptr ")
_REMARK = re.compile(r"^  ;.*\n", re.MULTILINE)
_LIMIT = 1 << 31
_HEADER = re.compile(r"^define void @[^(]+\(", re.MULTILINE)
_HEAD = "@{} = external hidden global i8, !absolute_symbol !0\n"
_RANGE = f"\n!0 = !{{i64 0, i64 {_LIMIT - 1}}}\n"


class Template(NamedTuple):
    """LLVM IR of kernels, and for each, by its place, the numbers that are open in the text."""

    text: str
    instances: tuple[tuple[int, Mapping[str, int]], ...]


class _Kernel(NamedTuple):
    """A text taken apart: what must be equal, and the numbers between."""

    place: int
    rest: tuple[str, ...]
    numbers: tuple[int, ...]


def templates_of(texts: Sequence[str]) -> list[Template]:
    """Templates for the texts of kernels, as few as there are forms among them."""
    forms: dict[object, list[_Kernel]] = {}
    for place, text in enumerate(texts):
        text = _HEADER.sub(f"define void @{FUNCTION}(", text, count=1)
        pieces = _OPEN.split(_REMARK.sub("", text) if len(texts) > 1 else text)
        numbers = tuple(map(int, pieces[2::3]))
        rest = tuple(p for k, p in enumerate(pieces) if k % 3 != 2)
        alone = max(numbers, default=0) * max(_BYTES.values()) >= _LIMIT
        forms.setdefault((rest, place if alone else -1), []).append(_Kernel(place, rest, numbers))
    return [_template(kernels) for kernels in forms.values()]


def _template(kernels: Sequence[_Kernel]) -> Template:
    first = kernels[0].rest
    symbols: dict[tuple[int, ...], str] = {}
    pieces: list[str] = []
    for k, column in enumerate(zip(*[kernel.numbers for kernel in kernels], strict=True)):
        before, at, number = first[2 * k], first[2 * k + 1], str(column[0])
        if len(set(column)) > 1:
            at, scale = _in_bytes(at)
            symbol = symbols.setdefault(tuple([n * scale for n in column]), f"n{len(symbols)}")
            number = f"ptrtoint (ptr @{symbol} to i64)"
        pieces += before, at, number
    text = "".join([*pieces, first[-1]])
    if symbols:
        text = "".join(map(_HEAD.format, symbols.values())) + text + _RANGE
    instances = [
        (kernel.place, {symbol: values[k] for values, symbol in symbols.items()})
        for k, kernel in enumerate(kernels)
    ]
    return Template(text, tuple(instances))


def _in_bytes(at: str) -> tuple[str, int]:
    """What stands before a number, with distances in bytes, and what the number is times."""
    found = _ELEMENT.search(at)
    if found is None:
        return at, 1
    return _ELEMENT.sub("i8, ptr ", at), _BYTES[found[1]]
