"""Instructions as data: what one computes, what a processor needs for it, and how it is emitted.

The code generators ask by name for what a target may have; where it has none, they write the same
in instructions that every processor has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minicc.backends.llvm.writer import Vec, Writer


class Instruction(NamedTuple):
    """An instruction on vectors.

    `means` is what it computes, on NumPy arrays of its operands; `needs` are features of the
    processor as Linux calls them. `emit` appends it for a vector whose lanes are one of `lanes` and
    returns the result's name.
    """

    name: str
    means: Callable[..., Any]
    needs: frozenset[str]
    lanes: Callable[[Vec], Sequence[int]]
    emit: Callable[[Writer, Vec, Sequence[str]], str]

    def apply(self, w: Writer, t: Vec, operands: Sequence[str]) -> str:
        """Append it for any number of lanes.

        Other lane counts than the instruction's are padded and cut by shuffles that cost nothing
        where they hit register boundaries. So every lane count gives the same bits.
        """
        widths = self.lanes(t)
        if t.lanes in widths:
            return self.emit(w, t, operands)
        if t.lanes == 1:
            part = Vec(widths[0], t.element)
            padded = [w.inst(f"insertelement {part} poison, {t} {x}, i32 0") for x in operands]
            return w.inst(f"extractelement {part} {self.emit(w, part, padded)}, i32 0")
        width = next((n for n in widths if n >= t.lanes), widths[-1])
        part, pieces = Vec(width, t.element), []
        for start in range(0, t.lanes, width):
            lanes = [i if i < t.lanes else None for i in range(start, start + width)]
            pieces.append(self.emit(w, part, [shuffle(w, t, x, x, lanes) for x in operands]))
        while len(pieces) > 1:
            if len(pieces) % 2:
                pieces.append(pieces[-1])
            joined = list(range(2 * part.lanes))
            pieces = [
                shuffle(w, part, a, b, joined)
                for a, b in zip(pieces[::2], pieces[1::2], strict=True)
            ]
            part = Vec(2 * part.lanes, t.element)
        return shuffle(w, part, pieces[0], pieces[0], list(range(t.lanes)))


def shuffle(w: Writer, t: Vec, a: str, b: str, lanes: Sequence[int | None]) -> str:
    """The named lanes of a followed by b; None is a lane of no matter."""
    mask = ", ".join(["i32 poison" if i is None else f"i32 {i}" for i in lanes])
    return w.inst(f"shufflevector {t} {a}, {t} {b}, <{len(lanes)} x i32> <{mask}>")
