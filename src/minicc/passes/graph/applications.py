"""The applications of rules, numbered, so that one of them can be named, and undone.

17 double-negation at Neg_3
"""

from __future__ import annotations

from typing import NamedTuple


class Application(NamedTuple):
    """One application: its number from 1, the rule, and the nodes that it was applied for."""

    number: int
    rule: str
    where: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.number} {self.rule} at {', '.join(self.where)}"


class Applications:
    """What was applied while a module was lowered, in order; at most the first `most` are."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.made: list[Application] = []

    def admit(self, rule: str, where: tuple[str, ...]) -> bool:
        """Whether a rule may be applied now; if so it has its number."""
        if self.most is not None and len(self.made) >= self.most:
            return False
        self.made.append(Application(len(self.made) + 1, rule, where))
        return True
