"""Random functions of given phrases: lines, and the values, numbers and conditions in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or the text of the error that it raises."""
    with np.errstate(all="ignore"):
        try:
            return f(*args)
        except (ArithmeticError, LookupError, NameError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Phrases:
    """What functions are made of.

    `{a}` and `{b}` in lines stand for arrays, `{e}` for values, `{n}` for numbers, `{c}` for what
    is asked. `heads` begin blocks; `COUNT` is a name of a block's own there. Blocks of loops have
    lines of `leaving` as well.
    """

    arrays: Sequence[str]
    values: Sequence[str]
    numbers: Sequence[str]
    asked: Sequence[str]
    lines: Sequence[str]
    heads: Sequence[str]
    leaving: Sequence[str] = ()
    depth: int = 2

    def block(
        self, draw: random.Random, depth: int, within: int = 0, least: int = 1, loop: bool = False
    ) -> list[str]:
        """Some lines, among them blocks within blocks."""
        made = []
        for _ in range(draw.randint(least, 5)):
            if within < self.depth and draw.random() < 0.2:
                head = self.filled(draw, draw.choice(self.heads)).replace("COUNT", f"m{within}")
                made += ["    " * depth + line for line in head.split("\n")]
                looping = loop or not head.startswith(("if", "try"))
                made += self.block(draw, depth + 1, within + 1, loop=looping)
            else:
                lines = [*self.lines, *self.leaving] if loop else self.lines
                made.append("    " * depth + self.filled(draw, draw.choice(lines)))
        return made

    def filled(self, draw: random.Random, text: str) -> str:
        """A line with arrays, values, numbers and conditions of the draw's in it."""
        a, b, number, asked = map(draw.choice, (self.arrays, self.arrays, self.numbers, self.asked))
        number = number.format(a=a, b=b)
        value = draw.choice(self.values).format(a=a, b=b, n=number)
        asked = asked.format(a=a, b=b, n=number)
        return text.format(a=a, b=b, e=value, n=number, c=asked)
