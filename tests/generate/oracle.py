"""What minicc, the ONNX reference and ONNX Runtime make of a case, and who is wrong.

minicc has to agree with both others, but where a fault of theirs is named (`faults`). It is run
twice, must leave its inputs and earlier results as they were, and gives the same bits at one and
two threads. Other forms of it (strict, other targets, free dimensions bound, the interpreter after
each stage, random schedules) take turns by seed, for each costs a compilation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto

import minicc
from minicc.api.inputs import check_inputs
from minicc.api.node_args import elements_of
from minicc.compile.compiler import lower
from minicc.compile.units import Unit, run_units, units_of
from minicc.errors import CompilerBug, MiniccError
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.model.reader import read_model
from minicc.ir import interpret
from minicc.ir.text.printer import print_attribute
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.target import TARGETS
from tests.generate.draft import Case, Item, every_node, largest, needed
from tests.generate.faults import CRASH, RUNTIME, excuse
from tests.generate.source import Array, is_float
from tests.stages.programs import machine_code
from tests.stages.schedules import rescheduled

_LEAST_SCALE = 0.1
_MOST_SCALE = 1e5
_OF_SOME = {"ArgMax", "ArgMin"}  # which have no result where there are no elements
_STAGE_TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-9}


class Finding(NamedTuple):
    """Something that is not as it must be: its kind, who found it, and the numbers.

    Kinds: "crash", "refused", "wrong" (against all others), "differs" (from one), "unstable",
    "threads", "level".
    """

    kind: str
    who: str
    text: str


class Outcome(NamedTuple):
    """What an engine gave: values, or the error that it raised."""

    values: list[Any] | None
    error: BaseException | None = None


@cache
def onnxruntime() -> Any:
    """ONNX Runtime, or None where it is not installed."""
    try:
        import onnxruntime as found
    except ImportError:
        return None
    found.set_default_logger_severity(4)
    return found


def attempt(run: Callable[[], list[Any]]) -> Outcome:
    """Run an engine, whatever it raises."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return Outcome(run())
    except Exception as error:
        return Outcome(None, error)


def by_onnxruntime(case: Case) -> Outcome | None:
    """What ONNX Runtime makes of a case; None where it is not installed, or would crash."""
    ort = onnxruntime()
    if ort is None or _excused(case, every_node(case.nodes), RUNTIME, CRASH):
        return None

    def run() -> list[Any]:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        # else it rounds to 8 bits what weights of few bits are multiplied with
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        data = case.model().SerializeToString()
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, case.feeds()))

    return attempt(run)


def open_session(case: Case, free: bool = True, **options: Any) -> minicc.InferenceSession:
    """A session of minicc for a case."""
    data = case.model(free).SerializeToString()
    return minicc.InferenceSession(data, options=Options(cache_dir=False, **options))


def by_minicc(case: Case, free: bool = True, **options: Any) -> Outcome:
    """What minicc makes of a case."""
    return attempt(lambda: open_session(case, free, **options).run(None, case.feeds()))


# comparing


def differs(got: Any, want: Any, item: Item) -> str:
    """How a value differs from another by more than rounding may; "" where it does not."""
    if isinstance(got, list) or isinstance(want, list):
        if not (isinstance(got, list) and isinstance(want, list) and len(got) == len(want)):
            return "another sequence"
        return next((d for a, b in zip(got, want, strict=True) if (d := differs(a, b, item))), "")
    if got is None or want is None:
        return "" if got is want else "one of them is empty"
    a, b = np.asarray(got), np.asarray(want)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} and not {b.dtype}{list(b.shape)}"
    if not is_float(a.dtype):
        if item.steps and a.dtype.kind in "iu":
            same = np.abs(a.astype(np.int64) - b.astype(np.int64)) <= item.steps
        else:
            same = np.asarray(a == b)
        return _worst(a, b, ~same)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        # what an operand was rounded by shows beside it, however small the result is
        scale = min(max(largest(b), item.scale, _LEAST_SCALE), _MOST_SCALE)
        allowed = item.rtol * (np.abs(y) + scale * (1 + item.steps * 1e4))
        close = np.abs(x - y) <= allowed
    same = (x == y) | (np.isnan(x) & np.isnan(y)) | close
    return _worst(a, b, ~same)


def _worst(a: Array, b: Array, off: Array) -> str:
    if not np.any(off):
        return ""
    at = tuple(int(k) for k in np.argwhere(off)[0])
    return f"{a[at]!r} and not {b[at]!r} at {list(at)}, {int(off.sum())} of {a.size}"


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are the same to the bit, sequences too."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype == object:
            return bool(a.shape == b.shape and a.tolist() == b.tolist())
        return (a.dtype, a.shape) == (b.dtype, b.shape) and bool(a.tobytes() == b.tobytes())
    return bool(a is b or a == b)


def _first(got: Sequence[Any], want: Sequence[Any], case: Case) -> str:
    """The first output that differs, in words."""
    for name, a, b in zip(case.outputs, got, want, strict=True):
        item = case.known[name]
        if found := differs(a, b, item):
            return f"{name}: {found}"
    return ""


# judging


def judge(case: Case, turn: int = 0, everything: bool = False) -> list[Finding]:
    """All that is wrong with what minicc makes of a case; `turn` chooses which forms are tried."""
    opened: list[minicc.InferenceSession] = []

    def run() -> list[Any]:
        opened.append(open_session(case, threads=1))
        return opened[0].run(None, case.feeds())

    base = attempt(run)
    reference = _reference(case)
    others = {"the reference": reference} if reference.values is not None else {}
    if (ran := by_onnxruntime(case)) is not None:
        others["ONNX Runtime"] = ran
    if base.values is None:
        return _refusal(case, base.error, others)
    found = _compared(case, base.values, others)
    found += _again(case, opened[0], base.values)
    forms = _forms(case)
    chosen = forms if everything else [forms[turn // 2 % len(forms)]][: turn % 2]
    for name, run in chosen:
        if own := {"levels": _levels, "schedules": _schedules, "other sizes": _other_sizes}.get(
            name
        ):
            found += own(case, turn)
            continue
        other = attempt(run)
        if other.values is None:
            found.append(Finding("crash", name, _told(other.error)))
        elif name == "threads=2":
            if not all(map(same_bits, other.values, base.values)):
                found.append(Finding("threads", name, "other bits than at one thread"))
        elif text := _first(other.values, base.values, case):
            found.append(Finding("wrong", name, text))
    return found


class _Unknown:
    """Stands for an output that the reference doesn't know."""


def _reference(case: Case) -> Outcome:
    values = [case.known[name].value for name in case.outputs]
    unknown = all(v is None for v in values)
    return Outcome(None if unknown else [_Unknown() if v is None else v for v in values])


def _told(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"


def _refusal(case: Case, error: BaseException | None, others: dict[str, Outcome]) -> list[Finding]:
    if not isinstance(error, MiniccError) or isinstance(error, CompilerBug):
        return [Finding("crash", "minicc", _told(error))]
    ran = [who for who, outcome in others.items() if outcome.values is not None]
    if not ran or _excused(case, every_node(case.nodes), "minicc", _told(error)):
        return []
    return [Finding("refused", " and ".join(ran), _told(error))]


def _excused(case: Case, nodes: Iterable[NodeProto], who: str, text: str) -> bool:
    known = {name: item.value for name, item in case.known.items()}
    return excuse(nodes, case.opset, who, text, known) is not None


def _compared(case: Case, got: list[Any], others: dict[str, Outcome]) -> list[Finding]:
    """What differs from others, output by output, without what faults of theirs explain."""
    found: list[Finding] = []
    for k, name in enumerate(case.outputs):
        against: dict[str, str] = {}
        agrees = False
        for who, outcome in others.items():
            if outcome.values is None or isinstance(outcome.values[k], _Unknown):
                continue
            text = differs(got[k], outcome.values[k], case.known[name])
            agrees |= not text
            if text and not _excused(case, case.after(name), who, text):
                against[who] = f"{name}: {text}"
        if against:
            kind = "differs" if agrees else "wrong"
            found.append(Finding(kind, " and ".join(against), "; ".join(against.values())))
    return found


def _again(case: Case, session: minicc.InferenceSession, first: list[Any]) -> list[Finding]:
    """A session that ran gives the same again, and writes to nothing that is not its own."""
    feeds, kept = case.feeds(), case.feeds()
    copies = [_copied(v) for v in first]
    second = session.run(None, feeds)
    found = []
    if not all(map(same_bits, copies, second)):
        found.append(Finding("unstable", "minicc", "the second run gives another result"))
    if not all(map(same_bits, copies, first)):
        found.append(Finding("unstable", "minicc", "the second run changed the first one's result"))
    for value in second:
        if isinstance(value, np.ndarray) and value.flags.writeable and value.dtype != object:
            value[...] = np.zeros((), value.dtype)
    third = session.run(None, feeds)
    if not all(map(same_bits, copies, third)):
        found.append(Finding("unstable", "minicc", "writing to a result changed the next run"))
    if not all(same_bits(feeds[name], kept[name]) for name in kept):
        found.append(Finding("unstable", "minicc", "a run changed its inputs"))
    return found


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _forms(case: Case) -> list[tuple[str, Callable[[], list[Any]]]]:
    """Other forms of minicc, each with how to run it."""

    def form(**how: Any) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            outcome = by_minicc(case, **how)
            if outcome.error is not None:
                raise outcome.error
            assert outcome.values is not None
            return outcome.values

        return run

    forms = [("threads=2", form(threads=2)), ("strict", form(threads=1, math="strict"))]
    here = [name for name, target in TARGETS.items() if target.runs_here()]
    best = Options().machine.name
    forms += [(name, form(threads=1, target=name)) for name in here if name != best]
    forms += [("levels", form()), ("schedules", form())]
    if case.symbols:
        forms.append(("numbers for free dimensions", form(free=False, threads=1)))
        forms.append(("other sizes", form()))
    return forms


def _resized(case: Case, rng: Random) -> Case:
    """The same with other sizes of its free dimensions, and what its inputs hold repeated."""
    some = (1, 1, 2, 3, 4, 7) if case.operators() & _OF_SOME else (0, 1, 1, 2, 3, 4, 7)
    sizes = {name: rng.choice(some) for name in sorted(set(case.symbols.values()))}
    inputs = {
        name: np.resize(a, [sizes.get(case.symbols.get((name, k), ""), n)
                            for k, n in enumerate(a.shape)]).astype(a.dtype)
        for name, a in case.inputs.items()
    }  # fmt: skip
    return replace(case, inputs=inputs)


def _other_sizes(case: Case, seed: int) -> list[Finding]:
    """A session that ran runs other sizes as one does that knows no others, or refuses them too.

    An operator that does nothing may refuse its operands or not, and one that nothing uses is left
    out where sizes are free.
    """
    other = _resized(case, Random(seed))

    def run() -> list[Any]:
        session = open_session(case, threads=1)
        session.run(None, case.feeds())
        return session.run(None, other.feeds())

    got, want = attempt(run), by_minicc(other, free=False, threads=1)
    if got.values is not None and want.values is None:
        used = replace(other, nodes=tuple(needed(other.nodes, other.outputs)))
        want = by_minicc(used, free=False, threads=1)
    sizes = {name: a.shape for name, a in other.feeds().items()}
    if got.values is not None and want.values is not None:
        text = _first(got.values, want.values, case)
    elif got.values is None and isinstance(got.error, MiniccError) and want.values is None:
        text = _told(got.error) if isinstance(got.error, CompilerBug) else ""
    elif any(not a.size for a in other.feeds().values()):
        text = ""
    else:
        text = f"{_said(got)} and not {_said(want)}"
    return [Finding("wrong", "other sizes", f"{sizes}: {text}")] if text else []


def _said(outcome: Outcome) -> str:
    return "gives values" if outcome.error is None else _told(outcome.error)


def _levels(case: Case, _: int) -> list[Finding]:
    """The interpreter after each stage against the meaning of the graph."""

    def after_each(unit: Unit, inputs: list[Array], options: Options) -> Iterator[tuple[str, Any]]:
        seen: list[tuple[str, Any]] = []

        def observe(stage: Any, before: Any, after: Any, seconds: float) -> None:
            verify(after)
            if before is not after:
                seen.append((f"after {stage.name}", interpret.run(after, inputs)))

        lower(unit.module, options, unit.binding, observe=observe)
        yield from seen

    return _each_unit(case, "level", after_each)


def _schedules(case: Case, seed: int) -> list[Finding]:
    """The interpreter and machine code of random legal schedules against the graph's meaning."""

    def scheduled(unit: Unit, inputs: list[Array], options: Options) -> Iterator[tuple[str, Any]]:
        rng = Random(seed)
        packed, program, given = rescheduled(unit.module, options, unit.binding, rng)
        told = "; ".join(f"{name} = {print_attribute(plan)}" for name, plan in given.items())
        yield f"packed: {told}", interpret.run(packed, inputs)
        yield f"program: {told}", interpret.run(program, inputs)
        yield f"code: {told}", machine_code(program, options.machine.name, inputs, 1)

    return _each_unit(case, "schedule", scheduled)


def _each_unit(
    case: Case, kind: str, made: Callable[[Unit, list[Array], Options], Iterator[tuple[str, Any]]]
) -> list[Finding]:
    """What is made of each unit that is compiled, against the meaning of the graph."""
    options = Options(cache_dir=False, threads=1)
    read = read_model(case.model(free=False).SerializeToString())
    units = units_of(import_graph(read, {}), options, {})
    feeds = check_inputs(read.inputs, case.feeds(), 1 << 40, elements_of(read.declared))
    found: list[Finding] = []

    def met(unit: Unit, inputs: list[Array], want: list[Array]) -> None:
        for where, got in () if unit.host else made(unit, inputs, options):
            if text := _off(got, want):
                found.append(Finding(kind, where, text))

    with np.errstate(all="ignore"):
        try:
            run_units(units, list(feeds.values()), options, met)
        except Exception as error:
            found.append(Finding("crash", f"{kind}s", _told(error)))
    return found[:1]


def _off(got: Sequence[Array], want: Sequence[Array]) -> str:
    for a, b in zip(got, want, strict=True):
        rtol = _STAGE_TOLERANCE.get(b.dtype.itemsize, 0.1) if is_float(b.dtype) else 0.0
        # a conversion may have rounded on the other side
        item = Item("", b, 1, rtol, 0.0, int(b.dtype.itemsize == 1 and b.dtype != bool))
        if text := differs(a, b, item):
            return text
    return ""
