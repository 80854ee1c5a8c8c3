"""A random function of a seed, grown line by line while NumPy runs it.

Each line is tried with the arguments of all calls. Floats whose value may depend on the order of
a sum or on a rounding are *loose*: no condition, no index and no integer is made of them.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.generate.functions import templates
from tests.generate.functions.arguments import calls_of
from tests.generate.functions.program import Line, Program, loaded
from tests.generate.functions.seen import GROWING, Seen, Stop, TooMuchError
from tests.generate.source import Source

_MISTAKES = (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError,
             AttributeError, ArithmeticError)  # fmt: skip
_ORDER = (0, 1, 2, 3, 4, 5, 0)
_MOST = 1e4  # floats that are rounded stay below
_ROUNDING = re.compile(
    r"mean|average|std|var\(|exp|log|sin|cos|tanh|arctan|hypot|norm|cbrt|angle|percentile|gradient|"
    r"linspace|trapezoid|quantile|median|det|fft|deg2rad|interp|abs\(\{C|\} \*\* \{|unwrap|"
    r"multi_dot|power"
)
_PRODUCT = re.compile(r"@|dot|einsum|inner|multi_dot|convolve|fft")
_NUMBERS = ("2", "0.5", "1", "3", "-1", "0", "1.5", "True", "300", "1j", "G", "np.float32(0.5)",
            "np.int64(2)", "-2.0", "np.array(2)", "4")  # fmt: skip
_LINES = (2, 3, 4, 5, 6, 8, 10)
_TRIES = 12
_TABLES = {
    name: templates.split(getattr(templates, name))
    for name in ("MOVES", "LINEAR", "EXACT", "WRITES", "WRITES_EXACT", "OTHERS", "OTHERS_WRITES")
}
_AT_ROUNDS = tuple(text for text in templates.INDICES if "{n}" in text)
_LOOSE_FIT = ("MOVES", "LINEAR", "WRITES")


class _Filling:
    """Puts names, numbers and texts into the holes of templates."""

    source: Source
    names: Mapping[str, Any]
    loose: set[str]
    _read: set[str]

    def _pool(self, fits: Any, exact: bool) -> list[str]:
        found = []
        for name, value in self.names.items():
            if exact and name in self.loose:
                continue
            found += [t for t, v in _operands(name, value) if fits(v)]
        return found

    def _fill(self, text: str, exact: bool, depth: int = 0) -> str:
        """A template with its holes filled; ValueError where there is nothing for one."""
        return re.sub(r"\{(\w)\}", lambda m: self._hole(m[1], exact, depth), text)

    def _hole(self, kind: str, exact: bool, depth: int) -> str:
        source = self.source
        if kind in "avMFICzB" and depth < 2 and source.chance(0.12):
            table = source.pick(("MOVES", "LINEAR") if not exact else tuple(_TABLES)[:3])
            return (
                f"({self._fill(source.pick(_TABLES[table]), exact or table == 'EXACT', depth + 1)})"
            )
        if kind == "c":
            return self._fill(source.pick(templates.CONDITIONS), True, depth + 1)
        if kind == "j":
            near = source.chance(0.5) and any(name in self.names for name in "ijk")
            texts = _AT_ROUNDS if near else templates.INDICES
            return self._fill(source.pick(texts), True, depth + 1)
        simple = {
            "k": lambda: str(source.count(-1, 2)),
            "x": lambda: str(source.pick((0, 0, -1, 1, -2))),
            "d": lambda: source.pick(templates.DTYPES),
            "o": lambda: source.pick(("<", ">", "<=", ">=", "==", "!=", "/", "&", "|")),
        }
        if kind in simple:
            return simple[kind]()
        if kind in "zs" and source.chance(0.45 if kind == "s" else 0.25):
            return source.pick(_NUMBERS)
        if kind == "n" and source.chance(0.3):
            return str(source.count(0, 3))
        pool = self._pool(_FITS[kind], exact or kind in "nIB")
        if kind == "n" and source.chance(0.6):
            pool = [name for name in pool if name in "ijk"] or pool
        if not pool:
            raise ValueError(f"nothing for {kind}")
        chosen = source.pick(pool)
        if exact:
            self._read.add(chosen.partition(".")[0].partition("[")[0])
        return chosen


class _Growth(_Filling):
    def __init__(self, seed: int) -> None:
        self.source = Source(seed)
        self.program = Program((), (), calls_of(self.source), _ORDER)
        self.program = replace(
            self.program,
            strict=self.source.chance(0.4),
            threads=self.source.pick((1, 1, 1, 2)),
            target=self.source.pick(("", "", "", "avx2", "x86-64")),
            placed=self.source.pick((0, 0, 1, 9)),
        )
        self.names: Mapping[str, Any] = {}
        self.loose: set[str] = set()
        self.rounded: set[str] = set()  # arguments, whatever their names are bound to later
        self.pinned: set[str] = set()  # of which conditions and integers were made in a loop
        self.special = any(re.search(r"\b(nan|inf)\b", c.text("")) for c in self.program.calls)
        self.count = 0
        self.over = False
        self.scale, self.itemsize = 1.0, 8
        seen = self._run([(0, "pass")])
        self._take(seen, loose=False)

    # trying

    def _run(self, lines: Sequence[Line]) -> Seen:
        """The lines run by NumPy with the arguments of each call."""
        end, text = lines[-1]
        last = (end + text.endswith(":"), "_p(1, locals())")
        return self._played(((lines[0][0], "_p(0, locals())"), *lines, last))

    def _played(self, extra: tuple[Line, ...]) -> Seen:
        seen = Seen()
        space = loaded(self.program.text(extra), GROWING)
        space["_p"] = seen.probe
        for k in range(len(self.program.calls)):
            seen.probes = seen.steps = 0
            given, kept = space[f"call{k}"](), sys.gettrace()
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    sys.settrace(seen.watch)
                    space["f"](**given)
            except Stop:
                pass
            except Exception as error:
                if not k:
                    seen.error = error
            finally:
                sys.settrace(kept)
            if seen.error is not None:
                break
        return seen

    def _take(self, seen: Seen, loose: bool) -> bool:
        """Whether what a line did may stay; what it made loose is known then."""
        made = set(seen.changed if loose else seen.rounded)
        if made & seen.whole - {"m"} and loose:
            return False
        for name in list(made):
            made |= seen.shared.get(name, set())
        new = made - self.loose
        if new & self.pinned or (made and seen.largest > _MOST) or not seen.names:
            return False
        self.loose = (self.loose | made) - (seen.changed - made)
        self.rounded |= made & {name for name, _ in self.program.calls[0].arguments}
        self.names = seen.names
        self.scale = max(self.scale, seen.largest if np.isfinite(seen.largest) else 1.0)
        self.itemsize = min(self.itemsize, seen.itemsize)
        return True

    def _add(self, lines: Sequence[Line]) -> None:
        self.program = replace(self.program, lines=(*self.program.lines, *lines))

    # growing

    def block(self, depth: int, budget: int) -> None:
        """Lines at a depth."""
        while budget > 0 and not self.over:
            budget -= 1
            if depth < 3 and self.source.chance(0.3):
                self._nested(depth, self.source.count(1, 3))
                continue
            for _ in range(_TRIES):
                if self._simple(depth):
                    break

    def _simple(self, depth: int) -> bool:
        """One line more; False where NumPy does not run it."""
        source = self.source
        if source.chance(0.04):
            return self._leaves(depth)
        others = any(map(_is_other, self.names.values())) and source.chance(0.6)
        table = source.pick(("OTHERS", "OTHERS", "OTHERS_WRITES") if others else (
            "MOVES", "MOVES", "LINEAR", "LINEAR", "EXACT", "EXACT", "WRITES", "WRITES",
            "WRITES_EXACT"))  # fmt: skip
        template = source.pick(_TABLES[table])
        self._read = set()
        exact = table not in _LOOSE_FIT
        try:
            text = self._fill(template, exact)
        except ValueError:
            return False
        if "WRITES" not in table:
            name = f"t{len(self.names)}"
            old = [n for n in self.names if n not in "mdl" and n[0] != "c"]
            if old and source.chance(0.25):
                name = source.pick(old)
            text = f"{name} = {text}"
        elif source.chance(0.02):
            text = f"{text}; b0 = {text.count('=')}"
        line = (depth, text)
        if self._without_end(line) or ("uint32" in text and self.special):
            return False  # NumPy has no one way of casting NaN to it
        try:
            seen = self._run([line])
        except SyntaxError:
            return False
        if seen.error is not None:
            return self._raises(line, seen.error)
        kept = seen.changed or re.match(r"LOG|SEEN|H\[|del", text)
        if not kept and source.chance(0.9):
            return False  # it does nothing
        if not seen.finite and _PRODUCT.search(text):
            return False  # what is multiplied with zeros depends on which way NumPy takes
        pinned = self.pinned
        self.pinned = pinned | self._read if depth else set()
        loose = bool(set(re.findall(r"\w+", text)) & self.loose) or bool(_ROUNDING.search(template))
        if not self._take(seen, loose and bool(seen.changed - seen.whole)):
            self.pinned = pinned
            return False
        self._add([line])
        return True

    def _leaves(self, depth: int) -> bool:
        """A line that ends the function early in some calls; not in the first one."""
        self._read = set()
        try:
            text = self._fill(self.source.pick(templates.LEAVES), True)
        except ValueError:
            return False
        seen = self._run([(depth, text)])
        if seen.error is not None or not self._take(seen, loose=False):
            return False
        self.pinned = self.pinned | self._read if depth else self.pinned
        self._add([(depth, text)])
        return True

    def _without_end(self, line: Line) -> bool:
        """Whether a line in a loop over a list makes the list longer."""
        made = re.match(r"(\w+)\.append", line[1])
        heads = (text for depth, text in self.program.lines if depth < line[0])
        return made is not None and any(re.match(rf"for .*\b{made[1]}\b", t) for t in heads)

    def _raises(self, line: Line, error: Exception) -> bool:
        """A line that NumPy refuses: at times it stays, caught or not."""
        if not isinstance(error, _MISTAKES) or isinstance(error, NameError):
            return False
        if self.source.chance(0.012):
            self._add([line])
            self.over = True
            return True
        if not self.source.chance(0.03):
            return False
        depth, text = line
        self.count += 1
        caught = [(depth, "try:"), (depth + 1, text), (depth, "except Exception as error:"),
                  (depth + 1, f"e{self.count} = str(error)")]  # fmt: skip
        seen = self._run([*caught, (depth, "pass")])
        if seen.error is not None or not self._take(seen, loose=False):
            return False
        self._add(caught)
        return True

    def _nested(self, depth: int, budget: int) -> None:
        """A loop or a choice with what is in it; nothing where it can't be."""
        kept = (self.program, self.names, set(self.loose), self.pinned, self.over)
        self._read = set()
        try:
            after = self._head(depth)
        except (ValueError, SyntaxError):
            self.program, self.names, self.loose, self.pinned, self.over = kept
            return
        start = len(self.program.lines)
        self.pinned = self.pinned | self._read
        if after is not None:
            self.block(depth + 1, budget)
        whole = after is None or len(self.program.lines) > start
        if whole and after:
            self._add(after)
            if after[-1][1] == "else:":
                inside = len(self.program.lines)
                seen = self._run([(depth + 1, "pass")])
                if seen.names:
                    self.names = seen.names
                self.block(depth + 1, 1)
                if len(self.program.lines) == inside:
                    self._add([(depth + 1, "pass")])
        seen = self._run([(depth, "pass")]) if whole else Seen()
        much = isinstance(seen.error, TooMuchError)
        if seen.error is not None and self.over and seen.probes <= 1 and not much:
            return  # it raises within
        seen.before = {}
        pinned = self.pinned
        if not whole or seen.error is not None or not self._checked(depth):
            self.program, self.names, self.loose, self.pinned, self.over = kept
            return
        self.pinned = pinned if depth else set()

    def _checked(self, depth: int) -> bool:
        """Whether all that a loop leaves is as exact as was thought."""
        seen = self._played(((depth, "_p(1, locals())"),))
        loose = set(self.loose)
        if seen.error is not None or not self._take(seen, loose=False):
            return False
        self.loose |= loose
        return True

    def _head(self, depth: int) -> list[Line] | None:
        """Open a block; the lines that close it, None where it has no body of its own."""
        source = self.source
        kind = source.pick(("for", "for", "for", "for", "if", "if", "while", "with", "count",
                            "suppress", "list", "list", "list", "names", "names"))  # fmt: skip
        self.count += 1
        if kind == "for":
            name = "ijk"[depth]
            head = self._fill(source.pick(templates.HEADS).replace("{i}", name), True)
            after: list[Line] = []
            leaving = source.pick(("break", "continue", "", "", "", ""))
            lines = [(depth, head)]
            if leaving:
                test = self._fill("{c}", True)
                lines += [(depth + 1, f"if {test}:"), (depth + 2, leaving)]
        elif kind == "if":
            lines = [(depth, f"if {self._fill('{c}', True)}:")]
            after = [(depth, "else:")] if source.chance(0.5) else []
        elif kind == "while":
            counter = f"c{self.count}"
            test = self._fill("{c}", True)
            lines = [(depth, f"{counter} = 0"), (depth, f"while {counter} < 6 and ({test}):"),
                     (depth + 1, f"{counter} += 1")]  # fmt: skip
            if source.chance(0.4):
                lines = [(depth, f"{counter} = 0"), (depth, "while True:")]
                stop = f"if {counter} > 5 or ({test}):"
                lines += [(depth + 1, f"{counter} += 1"), (depth + 1, stop), (depth + 2, "break")]
            after = []
        elif kind == "count":
            counter = f"t{len(self.names)}"
            steps = [source.pick(templates.COUNTS) for _ in range(source.pick((1, 1, 2)))]
            lines = [(depth, f"{counter} = 0"), (depth, self._fill("for r in {v}:", False))]
            lines += [(depth + 1, step.replace("{i}", counter)) for step in steps]
            after = []
        elif kind == "list":
            lines, after = self._filled(depth), []
        elif kind == "names":
            lines, after = self._bound(depth), []
        elif kind == "suppress":
            lines, after = [(depth, source.pick(templates.CONTEXTS))], []
        else:
            lines = [(depth, f"def h{self.count}(p, q=1):")]
            argument = self._fill("{a}", False)
            lines += [(depth + 1, f"return {self._fill('p * q + {z}', False)}"),
                      (depth, f"t{len(self.names)} = h{self.count}({argument})")]  # fmt: skip
            after = []
        whole = kind in ("with", "list", "names")
        seen = self._run([*lines, (depth + (not whole), "pass")])
        self.pinned = self.pinned | self._read
        if seen.error is not None or not self._take(seen, loose=False):
            raise ValueError("the block is not entered")
        self._add(lines)
        return None if whole else after

    def _filled(self, depth: int) -> list[Line]:
        """A list to which data decide to append, and what is made of it."""
        source, name, count = self.source, f"t{len(self.names)}", "ijk"[depth]

        def text(table: Sequence[str]) -> str:
            return self._fill(source.pick(table).replace("{i}", count), True)

        lines = [(depth, f"{name} = []"), (depth, text(templates.FILLING))]
        lines += [(depth + 1, f"if {text(templates.KEPT)}:"),
                  (depth + 2, f"{name}.append({text(templates.ELEMENTS)})")]  # fmt: skip
        if source.chance(0.2):
            lines += [(depth + 1, "else:"), (depth + 2, f"{name}.append({count})")]
        for k in range(source.pick((0, 1, 1, 2))):
            made = source.pick(templates.OF_LISTS).replace("{i}", name)
            lines.append((depth, f"t{len(self.names) + 1 + k} = {made}"))
        return lines

    def _bound(self, depth: int) -> list[Line]:
        """Names of arrays that rounds bind anew, or leave as they were, and writes after them."""
        source, count, counter = self.source, "ijk"[depth], f"c{self.count}"
        names = [f"t{len(self.names) + k}" for k in range(source.pick((2, 2, 3)))]

        def text(table: Sequence[str]) -> str:
            filled = source.pick(table).replace("{e}", source.pick(templates.BOUND))
            for hole, name in (
                ("{i}", count),
                ("{p}", source.pick(names)),
                ("{q}", source.pick(names)),
            ):
                filled = filled.replace(hole, name)
            return self._fill(filled, True)

        lines: list[Line] = []
        self._read.update(names)
        for k, name in enumerate(names):
            start = source.pick(templates.STARTS[: None if k else 4])
            lines.append((depth, f"{name} = {self._fill(start.replace('{p}', names[0]), True)}"))
        head = text(templates.ROUNDS)
        if head.startswith("while"):
            lines.append((depth, f"{counter} = 0"))
            head = f"while {counter} < 6 and ({head[6:-1]}):"
        lines.append((depth, head))
        if head.startswith("while"):
            lines.append((depth + 1, f"{counter} += 1"))
        for _ in range(source.count(1, 3)):
            line = text(templates.BINDS)
            if source.chance(0.4):
                lines += [(depth + 1, f"if {text(templates.ASKED)}:"), (depth + 2, line)]
            else:
                lines.append((depth + 1, line))
        if source.chance(0.3):
            lines += [(depth + 1, f"if {text(templates.ASKED)}:"), (depth + 2, "break")]
        if source.chance(0.6):
            lines.append((depth, text(templates.BINDS[4:6])))
        return lines


def _operands(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f'{name}["{k}"]', v) for k, v in value.items()]
    if isinstance(value, np.ndarray) and value.dtype.names:
        return [(name, value), *((f'{name}["{k}"]', value[k]) for k in value.dtype.names)]
    if hasattr(value, "log") and hasattr(value, "w"):
        return [(f"{name}.w", value.w), (f"{name}.k", value.k), (f"{name}.half", value.half),
                (f"{name}.step({name}.w)", value.w)]  # fmt: skip
    if hasattr(value, "both"):
        return [(f"{name}.left", value.left), (f"{name}.right", value.right)]
    return [(name, value)]


def _array(kinds: str = "biufc", ndim: int | None = None) -> Any:
    def fits(v: Any) -> bool:
        return isinstance(v, np.ndarray) and v.dtype.kind in kinds and (
            v.ndim > 0 if ndim is None else v.ndim == ndim
        ) and v.size < 200  # fmt: skip

    return fits


def _is_other(v: Any) -> bool:
    return isinstance(v, np.ndarray) and v.dtype.kind in "VMmUS"


def _is_number(v: Any) -> bool:
    whole = isinstance(v, (bool, int, float, complex, np.generic)) or (
        isinstance(v, np.ndarray) and not v.ndim
    )
    return whole and np.asarray(v).dtype.kind in "biufc"


_FITS = {
    "a": _array(), "v": _array(ndim=1), "M": _array(ndim=2), "F": _array("f"), "I": _array("iu"),
    "B": _array("b"), "C": _array("c"), "z": lambda v: _array()(v) or _is_number(v),
    "s": _is_number, "n": lambda v: type(v) is int and abs(v) < 10,
    "R": _array("V"), "D": _array("M"), "T": _array("m"), "U": _array("US"),
    "l": lambda v: isinstance(v, list) and len(v) < 40,
}  # fmt: skip


def generate(seed: int) -> Program:
    """The program of a seed."""
    growth = _Growth(seed)
    growth.block(0, growth.source.pick(_LINES))
    source = growth.source
    names = [n for n in growth.names if n != "m" and not callable(growth.names[n])]
    picked = [n for n in names if source.chance(0.7)]
    if len(picked) > 1 and source.chance(0.3):
        picked = [f"({picked[0]}, [{picked[1]}])", *picked[2:], picked[0]]
    loose = frozenset(growth.loose | growth.rounded)
    return replace(
        growth.program, returns=tuple(picked), loose=loose, scale=growth.scale,
        itemsize=growth.itemsize,
    )  # fmt: skip
