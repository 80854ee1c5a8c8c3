"""What `explain` and `lower` say of functions with breaks, and the lesson that shows it."""

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minicc

Array = np.ndarray[Any, Any]
LESSON = Path(__file__).parents[2] / "examples" / "08_graph_break" / "run.py"
FACTOR = 3.0


def halves(x: Array) -> Any:
    while np.max(np.abs(x)) > 1:
        with np.errstate(over="ignore"):
            x = x / 2
    return x * FACTOR, np.unique(np.sign(x))


def test_the_text_of_a_loop() -> None:
    f = minicc.jit(halves, threads=1)
    x = np.array([5, -40, 1], np.float32)
    f(x)
    first = halves.__code__.co_firstlineno
    lines = [
        "halves, specialisation 1 of 1",
        "  guards:",
        "    argument x is float32[3]",
        "    global FACTOR is 3.0",
        f"  loop at test_explain.py:{first + 1}: run round by round: has a `with` in it",
        f"  graph 1: 4 ops, 1 kernel in 1 launch, test_explain.py:{first + 1}",
        f"  break at test_explain.py:{first + 1}: while np.max(np.abs(x)) > 1:",
        "      Python reads a value for a condition (if, while, and, or, not, bool())",
        "      True -> graph 2",
        f"  graph 2: 6 ops, 2 kernels in 2 launches, test_explain.py:{first + 1} to "
        f"test_explain.py:{first + 3}",
        f"  break at test_explain.py:{first + 1}: while np.max(np.abs(x)) > 1:",
        "      Python reads a value for a condition (if, while, and, or, not, bool())",
        "      True -> graph 3",
        f"  graph 3: 6 ops, 2 kernels in 2 launches, test_explain.py:{first + 1} to "
        f"test_explain.py:{first + 3}",
        f"  break at test_explain.py:{first + 1}: while np.max(np.abs(x)) > 1:",
        "      Python reads a value for a condition (if, while, and, or, not, bool())",
        "      True -> graph 3",
        "      False -> graph 4",
    ]
    text = str(f.explain()).splitlines()
    assert [_without_counts(t) for t in text[: len(lines)]] == list(map(_without_counts, lines))
    assert (
        f"  break at test_explain.py:{first + 4}: return x * FACTOR, np.unique(np.sign(x))" in text
    )
    assert text[-2:] == ["halves was traced 1 time", "  1. first call"]


def _without_counts(line: str) -> str:
    """A line without what depends on how well fusion does."""
    return re.sub(r"\d+ kernels? in \d+ launch(es)?", "", line)


def decays(x: Array) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.5 + x[i]
    return s


def growth(x: Array) -> Any:
    return np.exp(x) * 2


def test_it_is_told_where_threads_share_nothing() -> None:
    x, alone = np.linspace(0, 1, 500_000), "    one thread runs it: threads can share no launch"
    for threads, function, told in [(2, decays, True), (2, growth, False), (1, decays, False)]:
        f = minicc.jit(function, threads=threads)
        f(x)
        assert [g.alone for g in f.explain().graphs] == [told]
        assert (f"  {alone}" in str(f.explain()).splitlines()) == told


def test_the_fields() -> None:
    f = minicc.jit(halves, threads=1)
    x = np.resize(np.array([5, -40, 1], np.float32), 1 << 16)
    told = f.explain(x)
    assert [b.source for b in told.breaks].count("while np.max(np.abs(x)) > 1:") == 3
    assert told.breaks[-1].what == "np.unique runs on the host: it has no counterpart in the graph"
    assert told.breaks[-1].outcomes[0][0] == "float32[2]"
    assert told.graphs[0].ops == 4
    assert "global FACTOR is 3.0" in told.guards
    f(np.resize(np.array([0.5, 0, 0], np.float32), 1 << 16))
    assert told.recompilations == ("first call",)
    assert f.explain().recompilations[1] == (
        f"test_explain.py:{halves.__code__.co_firstlineno + 1}: Python reads a value for a "
        "condition (if, while, and, or, not, bool()), False is new"
    )


def test_what_the_host_gave() -> None:
    def f(x: Array) -> Any:
        whole, order = np.unique(x, return_inverse=True)
        return whole * 2 + 1, order * order

    g = minicc.jit(f, threads=1)
    for n in (3, 2):
        g(np.arange(60000.0) % n)
    assert [seen for seen, _ in g.explain().breaks[0].outcomes] == [
        "float64[3], int64[60000]",
        "float64[2], int64[60000]",
    ]
    assert g.explain().recompilations[1].endswith("float64[2], int64[60000] is new")


def test_explaining_does_not_touch_the_arguments() -> None:
    def f(x: Array) -> None:
        if x[0] > 0:
            x += 1

    x = np.ones(3)
    told = minicc.jit(f, threads=1).explain(x)
    assert x.tolist() == [1, 1, 1]
    assert told.specialisations[0].writes == (f"test_explain.py:{f.__code__.co_firstlineno + 2}",)


def test_a_function_without_breaks() -> None:
    def f(x: Array, k: int) -> Array:
        return x * k

    told = minicc.jit(f, threads=1).explain(np.ones(3), 2)
    assert not told.breaks
    assert told.guards == ["argument x is float64[3]", "argument k is 2"]
    (graph,) = told.graphs
    assert graph.lines == (f"test_explain.py:{f.__code__.co_firstlineno + 1}",)


def test_segments_are_read_at_every_level() -> None:
    f = minicc.jit(halves, threads=1)
    lowered = f.lower(np.array([5, -40, 1], np.float32))
    assert lowered.as_text() == lowered.segments[0].as_text()
    assert "graph.div" in lowered.segments[1].as_text("graph")
    for level in ("structured", "kernel", "program"):
        assert f'level = "{level}"' in lowered.segments[1].as_text(level)


def test_the_lesson(capsys: pytest.CaptureFixture[str]) -> None:
    assert runpy.run_path(str(LESSON))["main"]() == 0
    out = capsys.readouterr().out
    assert out.count("traced 1 time(s)") == 4
    assert "a bad matrix: [nan nan]" in out
    assert "break at run.py:29: while rr > TOLERANCE:" in out
    assert "      True -> graph 4\n      False -> graph 6" in out


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_a_call_with_what_is_no_value_is_told_to_be_numpys() -> None:
    @minicc.jit
    def f(bits: Any, x: Any) -> Any:
        return x + np.random.Generator(bits).standard_normal(3)

    x = np.zeros(3)
    wanted = np.random.default_rng(0).standard_normal(3)
    np.testing.assert_array_equal(f(np.random.PCG64(0), x), wanted)
    text = str(f.explain(np.random.PCG64(0), x))
    assert "run by NumPy, not compiled: bits is a numpy.random" in text
