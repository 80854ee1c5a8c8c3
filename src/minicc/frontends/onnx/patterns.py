"""Regular expressions in the syntax of RE2, matched in time that grows with the text alone.

An expression becomes a nondeterministic automaton (K. Thompson, 1968) of which all states that a
text may lead to are followed at once, so that nothing is ever tried again. Like RE2 it has no
back-references and looks neither ahead nor behind. ValueError says what an expression lacks.

Mirrors: RE2, which ONNX names as the meaning of RegexFullMatch. Scripts of Unicode are left out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

Test = Callable[[str], bool]
Holds = Callable[[str, int], bool]

_MOST_STATES, _MOST_TIMES = 100_000, 1000
_ACCEPT = 0
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_POSIX = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\0\x7f",
    "blank": "\t\t  ",
    "cntrl": "\0\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZaz__",
    "xdigit": "09AFaf",
}
_PERL = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZaz__"}


class _State(NamedTuple):
    """Go on to `then`: past a character that passes a test, or at once where something holds."""

    test: Test | None
    holds: Holds | None
    then: tuple[int, ...]


# Adds the states of a part of an expression, which go on to the given one; returns the first.
_Part = Callable[[list[_State], int], int]


class Pattern:
    """A regular expression."""

    def __init__(self, text: str) -> None:
        self._states = [_State(None, None, ())]  # accepts
        self._first = _Parser(text).whole()(self._states, _ACCEPT)

    def matches(self, text: str) -> bool:
        """Whether the expression matches all of a text."""
        states = self._closed([self._first], text, 0)
        for at, character in enumerate(text, 1):
            passed = [n for n in states if (t := self._states[n].test) and t(character)]
            if not passed:
                return False
            states = self._closed([self._states[n].then[0] for n in passed], text, at)
        return _ACCEPT in states

    def _closed(self, states: Iterable[int], text: str, at: int) -> set[int]:
        """The states that can be reached without a character."""
        seen: set[int] = set()
        stack = list(states)
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            state = self._states[number]
            if state.test is None and (state.holds is None or state.holds(text, at)):
                stack.extend(state.then)
        return seen


def _added(states: list[_State], state: _State) -> int:
    if len(states) >= _MOST_STATES:
        raise ValueError("the regular expression is too large")
    states.append(state)
    return len(states) - 1


def _character(test: Test) -> _Part:
    return lambda states, then: _added(states, _State(test, None, (then,)))


def _assertion(holds: Holds) -> _Part:
    return lambda states, then: _added(states, _State(None, holds, (then,)))


def _sequence(parts: list[_Part]) -> _Part:
    def add(states: list[_State], then: int) -> int:
        for part in reversed(parts):
            then = part(states, then)
        return then

    return add


def _choice(parts: list[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]

    def add(states: list[_State], then: int) -> int:
        return _added(states, _State(None, None, tuple(part(states, then) for part in parts)))

    return add


def _repeated(part: _Part, least: int, most: int | None) -> _Part:
    """A part so many times; without a limit where `most` is None."""

    def add(states: list[_State], then: int) -> int:
        if most is None:
            loop = _added(states, _State(None, None, ()))
            states[loop] = _State(None, None, (part(states, loop), then))
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = _added(states, _State(None, None, (part(states, then), end)))
        for _ in range(least):
            then = part(states, then)
        return then

    return add


def _ranges(pairs: str) -> Test:
    bounds = list(zip(pairs[::2], pairs[1::2], strict=True))
    return lambda c: any(low <= c <= high for low, high in bounds)


def _inverted(test: Test) -> Test:
    return lambda c: not test(c)


def _either_case(test: Test) -> Test:
    return lambda c: test(c) or test(c.lower()) or test(c.upper())


def _at_word_edge(text: str, at: int) -> bool:
    word = _ranges(_PERL["w"])
    return (at > 0 and word(text[at - 1])) != (at < len(text) and word(text[at]))


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._flags: frozenset[str] = frozenset()

    def whole(self) -> _Part:
        """All of the expression."""
        part = self._alternatives()
        if self._at < len(self._text):
            raise self._wrong("a ) that closes nothing")
        return part

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"the regular expression {self._text!r} has {what} at {self._at}")

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._wrong("no end")
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, end: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise self._wrong(f"no {end}")
        found, self._at = self._text[self._at : stop], stop + len(end)
        return found

    def _alternatives(self) -> _Part:
        flags = self._flags
        parts = [self._concatenation()]
        while self._take("|"):
            parts.append(self._concatenation())
        self._flags = flags
        return _choice(parts)

    def _concatenation(self) -> _Part:
        parts: list[_Part] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at :] if end < 0 else self._until("\\E")
                self._at = len(self._text) if end < 0 else self._at
                parts += [self._literal(c) for c in quoted]
            else:
                parts.append(self._repetition(self._atom()))
        return _sequence(parts)

    def _repetition(self, part: _Part) -> _Part:
        if self._at >= len(self._text):
            return part
        bounds: tuple[int, int | None] | None
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._text[self._at])
        if bounds is not None:
            self._at += 1
        else:
            bounds = self._counts()
            if bounds is None:
                return part
        self._take("?")  # what is preferred is the same where all of a text must match
        if self._text[self._at : self._at + 1] in ("*", "+", "?") and self._at < len(self._text):
            raise self._wrong("a repetition of a repetition")
        return _repeated(part, *bounds)

    def _counts(self) -> tuple[int, int | None] | None:
        """The bounds in braces; None where these are no bounds, and stand for themselves."""
        if not self._text.startswith("{", self._at):
            return None
        inner, closed, _ = self._text[self._at + 1 :].partition("}")
        low, comma, high = inner.partition(",")
        plain = all(n.isascii() and n.isdigit() for n in (low, high or "0"))
        if not closed or not plain:
            return None
        least = int(low)
        most = None if comma and not high else int(high or low)
        if max(least, most or 0) > _MOST_TIMES or (most is not None and most < least):
            raise self._wrong(f"counts that are too large or not in order ({inner})")
        self._at += len(inner) + 2
        return least, most

    def _atom(self) -> _Part:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return _character(self._class())
        if character == ".":
            dot = "s" in self._flags
            return _character(lambda c: dot or c != "\n")
        if character in "^$":
            return _assertion(self._anchor(character))
        if character in "*+?":
            self._at -= 1
            raise self._wrong(f"a {character} that repeats nothing")
        if character == "\\":
            return self._escaped()
        return self._literal(character)

    def _anchor(self, character: str) -> Holds:
        lines = "m" in self._flags
        if character == "^":
            return lambda text, at: at == 0 or (lines and text[at - 1] == "\n")
        return lambda text, at: at == len(text) or (lines and text[at] == "\n")

    def _literal(self, character: str) -> _Part:
        return _character(self._cased(lambda c: c == character))

    def _cased(self, test: Test) -> Test:
        return _either_case(test) if "i" in self._flags else test

    def _group(self) -> _Part:
        outer = self._flags
        if self._take("?"):
            if self._take("P<") or (
                self._text[self._at : self._at + 1] == "<"
                and self._text[self._at + 1 : self._at + 2] not in ("=", "!")
                and self._take("<")
            ):
                self._until(">")
            elif not self._set_flags():
                return _sequence([])
        part = self._alternatives()
        if not self._take(")"):
            raise self._wrong("no )")
        self._flags = outer
        return part

    def _set_flags(self) -> bool:
        """Read the flags of a group; whether it has contents of its own."""
        on = True
        while True:
            character = self._next()
            if character in ":)":
                return character == ":"
            if character == "-" and on:
                on = False
            elif character in "imsU":
                self._flags = self._flags | {character} if on else self._flags - {character}
            else:
                self._at -= 1
                raise self._wrong(f"(?{character}, which RE2 does not have,")

    def _escaped(self) -> _Part:
        character = self._next()
        assertions: dict[str, Holds] = {
            "A": lambda text, at: at == 0,
            "z": lambda text, at: at == len(text),
            "b": _at_word_edge,
            "B": lambda text, at: not _at_word_edge(text, at),
        }
        if character in assertions:
            return _assertion(assertions[character])
        self._at -= 1
        found = self._named_class()
        return _character(found) if found is not None else self._literal(self._escape())

    def _named_class(self) -> Test | None:
        """The class of characters that an escape is; None where it is one character."""
        character = self._next()
        if character.lower() in _PERL:
            test = _ranges(_PERL[character.lower()])
            return test if character.islower() else _inverted(test)
        if character not in "pP":
            self._at -= 1
            return None
        name = self._until("}") if self._take("{") else self._next()
        inverted = (character == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if not 1 <= len(name) <= 2 or name[0] not in "CLMNPSZ":
            raise self._wrong(f"the class {name}, which minicc does not know,")
        test = lambda c: unicodedata.category(c).startswith(name)  # noqa: E731
        return _inverted(test) if inverted else test

    def _escape(self) -> str:
        """The one character that an escape stands for."""
        character = self._next()
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character == "x":
            digits = self._until("}") if self._take("{") else self._next() + self._next()
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError):
                raise self._wrong(f"\\x{digits}, which is no character,") from None
        following = self._text[self._at : self._at + 2]
        octal = next((n for n in range(2, -1, -1) if _is_octal(following[:n], n)), 0)
        if character == "0" or (character in "1234567" and octal == 2):
            self._at += octal
            return chr(int(character + following[:octal], 8))
        if character.isalnum() and character.isascii():
            self._at -= 1
            raise self._wrong(f"\\{character}, which RE2 does not have,")
        return character

    def _class(self) -> Test:
        """The characters in brackets."""
        inverted = self._take("^")
        tests: list[Test] = []
        first = True
        while first or not self._take("]"):
            first = False
            if self._take("[:"):
                name = self._until(":]")
                found = _POSIX.get(name.removeprefix("^"))
                if found is None:
                    raise self._wrong(f"no class [:{name}:], but one")
                test = _ranges(found)
                tests.append(_inverted(test) if name.startswith("^") else test)
                continue
            low = self._class_item(tests)
            if low is None:
                continue
            high = low
            if self._text[self._at : self._at + 1] == "-" and self._text[
                self._at + 1 : self._at + 2
            ] not in ("]", ""):
                self._at += 1
                high = self._class_item(tests) or ""
            if high < low:
                raise self._wrong("a range that is not in order")
            tests.append(_ranges(low + high))
        test = self._cased(lambda c: any(t(c) for t in tests))
        return _inverted(test) if inverted else test

    def _class_item(self, tests: list[Test]) -> str | None:
        """One character within brackets; None for a class, which is added to the tests."""
        if not self._take("\\"):
            return self._next()
        found = self._named_class()
        if found is None:
            return self._escape()
        tests.append(found)
        return None


def _is_octal(text: str, count: int) -> bool:
    return len(text) == count and all(c in "01234567" for c in text)
