"""Errors: their texts, and many gathered into one."""

import pickle

import pytest

from minicc.errors import CompilerBug, MiniccError, Problems, UnsupportedError, UserError
from minicc.options import Options


def test_text_says_code_place_and_hint() -> None:
    error = UserError("MC0199", "no input 'x'", hint="inputs: 'y'", where="model.py:3")
    assert str(error) == "MC0199 error: no input 'x'\n  at: model.py:3\n  hint: inputs: 'y'"
    assert isinstance(error, MiniccError)


def test_text_without_place_or_hint_is_one_line() -> None:
    assert str(UnsupportedError("MC0299", "strings")) == "MC0299 not supported: strings"


def test_long_list_of_places_is_counted() -> None:
    text = str(UserError("MC0199", "bad", where=[f"n{i}" for i in range(20)]))
    assert "n7 and 12 more" in text
    assert "n8" not in text


def test_bug_attaches_stage_and_ir() -> None:
    text = str(CompilerBug("MC0399", "lost a value", stage="fuse", ir="%1 = add  <-- here"))
    assert text.startswith("MC0399 bug in minicc: lost a value\n")
    assert text.endswith("stage: fuse\n%1 = add  <-- here")


@pytest.mark.parametrize("code", ["", "MC12", "XX0100", "MC01000", "MCabcd"])
def test_malformed_code_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match="four digits"):
        UserError(code, "message")


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(CompilerBug("MC0399", "m", where="n", stage="s", ir="t")))
    assert (error.code, error.where, error.stage, error.ir) == ("MC0399", ("n",), "s", "t")


def test_no_problem_raises_nothing() -> None:
    problems = Problems()
    problems.check()
    assert not problems


def test_one_problem_is_raised_as_it_is() -> None:
    problems = Problems()
    error = UserError("MC0199", "bad")
    problems.add(error)
    with pytest.raises(UserError) as caught:
        problems.check()
    assert caught.value is error


def test_many_problems_are_raised_as_one_of_the_gravest_kind() -> None:
    problems = Problems()
    with problems.catch():
        raise UnsupportedError("MC0299", "no Unique", where="a")
    with problems.catch():
        raise UserError("MC0199", "bad", hint="be good", where="b")
    with pytest.raises(UserError) as caught:
        problems.check()
    error = caught.value
    assert error.code == "MC0199"
    assert error.where == ("a", "b")
    assert [part.code for part in error.parts] == ["MC0299", "MC0199"]
    assert str(error).splitlines() == [
        "2 problems",
        "1. MC0299 not supported: no Unique",
        "     at: a",
        "2. MC0199 error: bad",
        "     at: b",
        "     hint: be good",
    ]


def test_one_problem_at_many_nodes_is_told_once() -> None:
    problems = Problems()
    for node in ("a", "b", "a"):
        problems.add(UnsupportedError("MC0299", "no Unique", where=node))
    (error,) = problems
    assert error.where == ("a", "b")


def test_gathered_errors_are_gathered_again_one_by_one() -> None:
    inner = Problems()
    inner.add(UserError("MC0198", "one"))
    inner.add(UserError("MC0199", "two"))
    outer = Problems()
    with outer.catch():
        inner.check()
    assert [error.code for error in outer] == ["MC0198", "MC0199"]


def test_a_bug_is_not_caught() -> None:
    problems = Problems()
    with pytest.raises(CompilerBug), problems.catch():
        raise CompilerBug("MC0399", "lost")


def test_options_name_all_bad_values_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINICC_THREADS", "many")
    with pytest.raises(UserError) as caught:
        Options(math="sloppy", target="avx1024")
    assert [part.code for part in caught.value.parts] == ["MC0101", "MC0102", "MC0101"]
    assert "MINICC_THREADS is 'many'" in str(caught.value)
    assert "'avx512', 'avx2', 'x86-64'" in str(caught.value)


@pytest.mark.parametrize("threads", [0, -1, True, 10_000])
def test_options_refuse_a_bad_number_of_threads(threads: int) -> None:
    with pytest.raises(UserError, match="from 1 to 256"):
        Options(threads=threads)


def test_options_prefer_the_argument_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINICC_MATH", "strict")
    monkeypatch.setenv("MINICC_THREADS", "3")
    monkeypatch.setenv("MINICC_TARGET", "avx2")
    monkeypatch.setenv("MINICC_CACHE_DIR", "off")
    options = Options(math="fast")
    assert (options.math, options.threads, options.target) == ("fast", 3, "avx2")
    assert options.cache_dir is None
    assert options.machine.vector_bits == 256
    changed = options.replace(threads=2)
    assert changed != options
    assert changed.cache_dir is None
    assert changed == Options(threads=2, math="fast")
    assert hash(changed) == hash(changed.replace())


def test_options_find_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINICC_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(Options().cache_dir) == "/somewhere/minicc"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert str(Options().cache_dir).endswith("/.cache/minicc")
    assert Options(cache_dir=False).cache_dir is None


def test_options_are_immutable() -> None:
    with pytest.raises(AttributeError, match=r"options\.replace"):
        Options().threads = 3
