"""Every knob of minicc, and the only module that reads the environment.

As XLA's `DebugOptions` or Torch Inductor's `config`, but a value that is handed on and not a
global: two sessions may differ. Plain slots and no dataclass, since creating a frozen dataclass
costs half a millisecond at import.

| variable            | knob           | meaning                                                |
|---------------------|----------------|--------------------------------------------------------|
| MINICC_MATH         | `math`         | `fast` (default) or `strict`                           |
| MINICC_THREADS      | `threads`      | threads of a run; default: all cores it may use        |
| MINICC_SPIN         | `spin`         | `1` (default) or `0`: threads that wait spin first     |
| MINICC_TARGET       | `target`       | `zen3`, ... (see `minicc target`); default: this host  |
| MINICC_CACHE_DIR    | `cache_dir`    | folder of compiled programs; empty or `off`: keep none |
| MINICC_CACHE_SIZE   | `cache_bytes`  | the most that folder may hold, in bytes; default 4 GiB |
| MINICC_MEMORY_LIMIT | `memory_limit` | bytes that a model may need; default: all there is     |
| MINICC_LIMITS       | `limits`       | others: `nodes=5000,seconds=60`, see `limits.Limits`   |
| MINICC_SKIP         | `skip`         | stages to leave out: `merge,hoist`                     |
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Never

from minicc.errors import Problems, UnsupportedError, UserError, did_you_mean
from minicc.limits import Limits
from minicc.target import MACHINES, Target, usable_cores, usable_memory

Math = Literal["fast", "strict"]
Flushed = Literal["nothing", "results", "all"]  # which denormal numbers count as 0

MOST_THREADS = 256


class Options:
    """An immutable set of knobs; what is not given comes from the environment, then a default.

    `math`: "fast" may reassociate and approximate within stated bounds, and its denormal results
    are 0; "strict" may not. `keep_denormals`: whether fast mathematics takes denormal operands for
    what they are, so that they compare as in NumPy, or for 0, which no processor is slow with;
    None for what is usual: functions do, models don't.
    `threads`: threads that share one run at most, the caller's among them; how much of it they do
    follows what runs take, so that some runs in hundreds try another way and take longer.
    `spin`: whether a thread with nothing to do spins for a millisecond (0.1 amid a run) before it
    sleeps; ONNX Runtime's `allow_spinning`. `target`: a named target, or None for the host's best.
    `cache_dir`: where compiled code is kept, None for nowhere;
    `cache_bytes`: the most that is kept there. `memory_limit`: the bytes of constants, outputs and
    values in between that a model may need, else it is refused before any is allocated. `limits`:
    others by their names, as a mapping or as text (see `limits.Limits`). `sizes`: numbers for free
    dimensions by their names; the program is compiled for these alone. `skip`: stages of the
    compiler that are left out, of those that only make programs faster. `fuse` and `no_fuse`: pairs
    of ops, by the names of nodes or results, that are to be in one group or not. `schedules`: what
    a file of schedules says, as text, or a mapping from names of groups to schedules (see
    `ir.schedule`).
    Raises `UserError` naming all bad values at once.
    """

    __slots__ = (
        "cache_bytes", "cache_dir", "fuse", "keep_denormals", "limits", "math", "memory_limit",
        "no_fuse", "schedules", "sizes", "skip", "spin", "target", "threads",
    )  # fmt: skip

    math: Math
    keep_denormals: bool | None
    threads: int
    spin: bool
    target: str | None
    cache_dir: str | None
    cache_bytes: int
    memory_limit: int
    limits: Limits
    fuse: tuple[tuple[str, str], ...]
    no_fuse: tuple[tuple[str, str], ...]
    schedules: str
    sizes: tuple[tuple[str, int], ...]
    skip: tuple[str, ...]

    def __init__(
        self,
        *,
        math: str | None = None,
        keep_denormals: bool | None = None,
        threads: int | None = None,
        spin: bool | None = None,
        target: str | None = None,
        cache_dir: str | os.PathLike[str] | Literal[False] | None = None,
        cache_bytes: int | None = None,
        memory_limit: int | None = None,
        limits: Limits | Mapping[str, int] | str | None = None,
        schedules: Mapping[str, str] | str = "",
        sizes: Mapping[str, int] | Sequence[tuple[str, int]] = (),
        skip: Sequence[str] | None = None,
        fuse: Sequence[tuple[str, str]] = (),
        no_fuse: Sequence[tuple[str, str]] = (),
        **unknown: Never,
    ) -> None:
        problems = Problems()
        for name in unknown:
            problems.add(_unknown(name, self.__slots__))
        values = {
            "math": _choice(problems, "math", math, ("fast", "strict")) or "fast",
            "keep_denormals": None
            if keep_denormals is None
            else _switch(problems, "keep_denormals", keep_denormals),
            "threads": _count(problems, "threads", threads, MOST_THREADS),
            "spin": _switch(problems, "spin", spin),
            "target": _choice(problems, "target", target, tuple(MACHINES)),
            "cache_dir": None if cache_dir is False else _folder(problems, cache_dir),
            "cache_bytes": _count(problems, "cache_size", cache_bytes, 1 << 62),
            "memory_limit": _count(problems, "memory_limit", memory_limit, 1 << 62),
            "limits": _limits(problems, limits),
            "schedules": _schedules(problems, schedules),
            "sizes": _sizes(problems, sizes),
            "skip": _names(problems, "skip", skip),
            "fuse": _named_pairs(problems, "fuse", fuse),
            "no_fuse": _named_pairs(problems, "no_fuse", no_fuse),
        }
        problems.check()
        values["threads"] = values["threads"] or usable_cores()
        values["cache_bytes"] = values["cache_bytes"] or 4 << 30
        values["memory_limit"] = values["memory_limit"] or usable_memory()
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def machine(self) -> Target:
        """The target as a value: the named one, which need not run here, or the host's best.

        Raises `UnsupportedError` on a host that no target is for.
        """
        if self.target is not None:
            return MACHINES[self.target]
        try:
            return Target.host()
        except RuntimeError as error:
            hint = "name a target to look at its code without running it"
            raise UnsupportedError("MC0201", str(error), hint=hint) from error

    @property
    def flushed(self) -> Flushed:
        """Which denormal numbers count as 0."""
        if self.math == "strict":
            return "nothing"
        return "results" if self.keep_denormals else "all"

    def replace(self, **changes: Any) -> Options:
        """The same options with some changed; they are checked as in the constructor."""
        values: dict[str, Any] = dict(zip(self.__slots__, self._key(), strict=True))
        if values["cache_dir"] is None:
            values["cache_dir"] = False
        return Options(**(values | changes))

    def _key(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"options are immutable; use options.replace({name}=...)")

    def __reduce__(self) -> Any:
        return _options, tuple(zip(self.__slots__, self._key(), strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        pairs = zip(self.__slots__, self._key(), strict=True)
        return f"Options({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _options(*pairs: tuple[str, Any]) -> Options:
    """The options that were pickled."""
    values = dict(pairs)
    return Options(**values | {"cache_dir": values["cache_dir"] or False})


def _choice(problems: Problems, name: str, given: str | None, legal: tuple[str, ...]) -> str | None:
    """One of `legal`, from the argument or the environment."""
    variable = f"MINICC_{name.upper()}"
    value, source = (given, name) if given is not None else (os.environ.get(variable), variable)
    if not value or value in legal:
        return value or None
    names = ", ".join(repr(choice) for choice in legal)
    message = f"{source} is {value!r}, and must be one of {names}"
    problems.add(UserError("MC0101", message, hint=f"set {source} to {legal[0]!r}"))
    return None


def _count(problems: Problems, name: str, given: int | None, most: int) -> int | None:
    """A whole number from 1 to `most`, from the argument or the environment."""
    variable = f"MINICC_{name.upper()}"
    text = os.environ.get(variable)
    if given is None and not text:
        return None
    value: object = given
    source = name
    if given is None and text is not None:
        value, source = (int(text) if text.isdecimal() else text), variable
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    message = f"{source} is {value!r}, and must be a whole number from 1 to {most}"
    problems.add(UserError("MC0102", message, hint=f"leave {source} out for the default"))
    return None


def _switch(problems: Problems, name: str, given: bool | None) -> bool:
    """True or False, on where nothing is said, from the argument or the environment."""
    if given is None:
        return _choice(problems, name, None, ("1", "0")) != "0"
    if not isinstance(given, bool):
        problems.add(UserError("MC0101", f"{name} is {given!r}, and must be True or False"))
    return given


def _names(problems: Problems, name: str, given: Any) -> tuple[str, ...]:
    """Words, each once and sorted, from the argument or the environment."""
    text = os.environ.get(f"MINICC_{name.upper()}", "") if given is None else given
    words = text.split(",") if isinstance(text, str) else text
    if not isinstance(words, list | tuple) or not all(isinstance(w, str) for w in words):
        problems.add(UserError("MC0101", f"{name} is {given!r}, and must be a list of names"))
        return ()
    return tuple(sorted({w.strip() for w in words} - {""}))


def _named_pairs(problems: Problems, name: str, given: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of names."""
    pairs = list(given) if isinstance(given, list | tuple) else [given]
    for pair in pairs:
        named = isinstance(pair, list | tuple) and all(isinstance(n, str) and n for n in pair)
        if not named or len(pair) != 2:
            hint = f"{name}=[('MatMul_0', 'Relu_1')]"
            text = f"{name} has {pair!r}, which is no pair of names"
            problems.add(UserError("MC0101", text, hint=hint))
            return ()
    return tuple((a, b) for a, b in pairs)


def _unknown(name: str, known: tuple[str, ...]) -> UserError:
    """There is no such option; the nearest that there is."""
    hint = f"{did_you_mean(name, known)} options: {', '.join(known)}".lstrip()
    return UserError("MC0137", f"no option is called {name!r}", hint=hint)


def options_of(options: Options | None, **given: Any) -> Options:
    """Options with those put in that were given beside them; UserError for what is none."""
    if options is None:
        return Options(**given)
    if not isinstance(options, Options):
        kind = type(options).__name__
        hint = "minicc.Options(threads=2), or the option itself: threads=2"
        raise UserError("MC0137", f"options is a {kind}, and must be an Options", hint=hint)
    changes = {name: value for name, value in given.items() if value is not None}
    return options.replace(**changes) if changes else options


def _schedules(problems: Problems, given: Any) -> str:
    """The text of a file of schedules."""
    if isinstance(given, Mapping) and all(isinstance(v, str) for v in (*given, *given.values())):
        quoted = ((name.replace("\\", "\\\\").replace('"', '\\"'), given[name]) for name in given)
        return "".join(f'"{name}" = {schedule}\n' for name, schedule in quoted)
    if not isinstance(given, str):
        hint = "give the text of a file of schedules, or {'MatMul_0': 'schedule<...>'}"
        message = f"schedules is {given!r}, and must be text by the names of groups"
        problems.add(UserError("MC0101", message, hint=hint))
        return ""
    return given


def _sizes(problems: Problems, given: Any) -> tuple[tuple[str, int], ...]:
    """Numbers for free dimensions, sorted by their names."""
    try:
        sizes = dict(given)
    except (TypeError, ValueError):
        sizes = {"": given}
    for name, n in sizes.items():
        whole = isinstance(n, int) and not isinstance(n, bool)
        if not isinstance(name, str) or not whole or not 0 <= n < 1 << 62:
            hint = "give the names of free dimensions with their sizes: sizes={'batch': 1}"
            problems.add(UserError("MC0101", f"sizes is {given!r}, and {n!r} is none", hint=hint))
            return ()
    return tuple(sorted(sizes.items()))


def _limits(problems: Problems, given: Any) -> Limits:
    """The limits with those changed that were named, from the argument or the environment."""
    if isinstance(given, Limits):
        return given
    source = "limits"
    if given is None:
        given, source = os.environ.get("MINICC_LIMITS", ""), "MINICC_LIMITS"
    changes: dict[str, Any] = {}
    if isinstance(given, str):
        parts = [part.partition("=") for part in given.split(",") if part]
        changes = {k.strip(): int(n) if n.strip().isdecimal() else n for k, _, n in parts}
    elif isinstance(given, Mapping):
        changes = dict(given)
    else:
        changes = {"": given}
    for name, n in changes.items():
        whole = isinstance(n, int) and not isinstance(n, bool) and n >= 1
        if name not in Limits._fields or not whole:
            hint = f"limits: {', '.join(Limits._fields)}; each a whole number from 1"
            problems.add(UserError("MC0102", f"{source} has {name}={n!r}", hint=hint))
            return Limits()
    return Limits(**changes)


def _folder(problems: Problems, given: str | os.PathLike[str] | None) -> str | None:
    """The cache's folder: the argument, MINICC_CACHE_DIR, or the user's own cache folder."""
    if given is not None and not isinstance(given, (str, os.PathLike)):
        message = f"cache_dir is {given!r}, and must be a path, or False for no folder"
        problems.add(UserError("MC0101", message))
        return None
    if given is not None:
        return os.path.expanduser(os.fsdecode(given))
    named = os.environ.get("MINICC_CACHE_DIR")
    if named is not None:
        return None if named in ("", "off") else os.path.expanduser(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules: a path that is not absolute counts as not set.
    root = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    return os.path.join(root, "minicc") if os.path.isabs(root) else None
