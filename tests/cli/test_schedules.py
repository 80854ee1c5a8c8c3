"""Schedules on the command line, as options, and in edited texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.stages.test_free_sizes import CASES, module_of
from tests.stages.test_whole_rows import attention

import minicc
from minicc.backends.llvm.compile import emit
from minicc.backends.llvm.optimize import optimise
from minicc.cli import commands
from minicc.cli.schedules import text_of_schedules
from minicc.compile.compiler import lower
from minicc.compile.observe import load_dump
from minicc.compile.units import Unit
from minicc.errors import UserError
from minicc.ir import interpret
from minicc.ir.core import Module
from minicc.ir.structured import Group
from minicc.ir.text.parser import parse_module, parse_schedules
from minicc.options import Options
from minicc.passes.structured.legal import legal

MODEL = str(Path(__file__).parents[2] / "examples" / "01_digits" / "digits.onnx")


def invoke(*args: str) -> Result:
    return CliRunner().invoke(commands, args)


def objects(module: Module, options: Options) -> dict[str, bytes]:
    """The machine code of a graph module."""
    machine = options.machine
    texts = emit(lower(module, options), machine, "all")
    return {name: optimise(text, machine) for name, text in texts.items()}


@pytest.mark.parametrize("name", ["attention of known sizes", *CASES])
def test_own_schedules_given_back_make_the_same_code(name: str) -> None:
    known = name not in CASES
    module = attention((2, 40, 40, 16, 32), True, True) if known else module_of(name)[0]
    options = Options(target="avx2")
    text = text_of_schedules([Unit(1, module, {}, (), ())], options)
    assert parse_schedules(text)
    assert objects(module, options.replace(schedules=text)) == objects(module, options)


def test_a_models_schedules_make_the_same_files(tmp_path: Path) -> None:
    file = tmp_path / "schedules.txt"
    shown = invoke("compile", MODEL, "--schedules")
    assert shown.exit_code == 0
    assert invoke("compile", MODEL, "--schedules", "-o", str(file)).exit_code == 0
    assert file.read_text() == shown.stdout
    made: list[dict[str, bytes]] = []
    for more in ((), ("--schedule", str(file))):
        out = tmp_path / f"objects{len(more)}"
        assert invoke("compile", MODEL, *more, "--emit", "obj", "-o", str(out)).exit_code == 0
        made.append({f.name: f.read_bytes() for f in out.iterdir()})
    assert made[0] == made[1]


def schedules() -> Mapping[str, str]:
    """The model's own schedules as texts by name."""
    lines = invoke("compile", MODEL, "--schedules").stdout.splitlines()
    pairs = (line.split(" = ", 1) for line in lines if line.startswith('"'))
    return {name.strip('"'): text for name, text in pairs}


def test_options_take_schedules_by_name() -> None:
    own = schedules()
    name, text = next((n, t) for n, t in own.items() if "tiles = <" in t)
    plain = text[: text.index(", tiles = <")] + ">"
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)
    want, got = (
        minicc.InferenceSession(MODEL, options=Options(schedules=given, cache_dir=False))
        for given in ("", {name: plain})
    )
    (given_input,) = want.get_inputs()
    for a, b in zip(
        want.run(None, {given_input.name: x}), got.run(None, {given_input.name: x}), strict=True
    ):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
    assert got.options.schedules == f'"{name}" = {plain}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"nobody" = schedule<>', "MC0186 error: no group is called 'nobody'"),
        ('"a" = schedule<>\n"a" = schedule<>', "MC0113 error: a is given twice\n  at: {}:2:1"),
        ('"a" = schedule<tile = <n=1>>', "MC0110 error: a schedule has no field tile; it has grid"),
        (
            '"a" = schedule<tiles = ["n"]>',
            "MC0110 error: the field tiles of a schedule can't be ['n']",
        ),
        ('"a" = 3', "MC0110 error: '3' stands where a schedule should\n  at: {}:1:7"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "wrong.txt"
    file.write_text(text)
    result = invoke("compile", MODEL, "--schedule", str(file))
    assert result.exit_code == 1
    assert result.stderr.startswith(said.format(file)), result.stderr


def test_an_edited_dump_is_obeyed_or_refused(tmp_path: Path) -> None:
    file, out = tmp_path / "schedule.mcc", tmp_path / "out.mcc"
    stop = ("--stop-after", "schedule", "-o", str(file))
    assert invoke("compile", MODEL, *stop).exit_code == 0
    text = file.read_text()
    start = text.index("tiles = <") + len("tiles = <")
    name, _, size = text[start : text.index(">", start)].partition(",")[0].partition("=")
    assert int(size) > 2
    for edited, resume in ((1, True), (2, True), (2, False)):
        file.write_text(f"{text[:start]}{name}={edited}{text[start + len(f'{name}={size}') :]}")
        how = ["compile", str(file), "--emit", "program"]
        args = how if resume else ["opt", str(file), "--passes", "tile,pack"]
        assert invoke(*args, "-o", str(out)).exit_code == 0
    stage, module = load_dump(file)
    x = np.random.default_rng(0).standard_normal(module.main.args[0].type.extents)
    inputs = [x.astype(np.float32)]
    want = interpret.run(module, inputs)
    got = interpret.run(lower(module, Options(), start=stage), inputs)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
    file.write_text(f"{text[:start]}{name}=4000{text[start + len(f'{name}={size}') :]}")
    for args in (["compile", str(file)], ["opt", str(file), "--passes", "tile"]):
        result = invoke(*args)
        assert result.exit_code == 1
        assert result.stderr.startswith("MC0185 error: a schedule does not fit its group: a tile")


PRODUCT = """
module level = "structured"

func @main(%x: f32[20,8], %w: f32[8,40], %n: f32[$n,40]) -> ("y": f32[20,40], "z": f32[$n,40]) {
  %y = structured.group %x, %w {shared = ["m", "n"], label = "product"} {
  ^(%x_1: f32[20,8], %w_1: f32[8,40]):
    %0 = structured.generic %x_1, %w_1 {space = <m=20, n=40 | k=8>, maps = [[m, k], [k, n], [m, n]], shapes = [[20, 40]], combine = ["add"]} {
    ^(%1: f32, %2: f32):
      %3 = arith.mul %1, %2 : f32
      yield %3
    } : f32[20,40]
    yield %0
  } : f32[20,40]
  %z = structured.group %n {shared = ["r", "c"], label = "free"} {
  ^(%n_1: f32[$n,40]):
    %4 = structured.generic %n_1 {space = <r=$n, c=40>, maps = [[r, c], [r, c]], shapes = [[$n, 40]], combine = [none]} {
    ^(%5: f32):
      %6 = arith.neg %5 : f32
      yield %6
    } : f32[$n,40]
    yield %4
  } : f32[$n,40]
  yield %y, %z
}
"""  # noqa: E501
GRID, ROWS = 'grid = ["m", "n"]', 'grid = ["r", "c"]'


@pytest.mark.parametrize(
    ("group", "text", "said"),
    [
        (0, f"{GRID}, tiles = <m=7, n=16, k=2>, sums = [[0, <k=4>, []]]", ""),
        (0, 'grid = ["m"]', "its grid is of m, and the group shares m, n"),
        (0, f"{GRID}, tiles = <q=2>", "no op has a dimension q to tile"),
        (0, f"{GRID}, tiles = <m=21>", "a tile of 21 points of m, which has 20"),
        (0, f"{GRID}, tiles = <m=0>", "a tile has no 0 points of m"),
        (
            0,
            f"{GRID}, tiles = <m=4>, steps = <m=5>",
            "5 points of m can't be handled at once of the 4 of a tile",
        ),
        (
            0,
            f"{GRID}, tiles = <k=4>, steps = <k=2>",
            "k is not shared: its tile is what is handled at once",
        ),
        (0, f"{GRID}, widths = <n=8>", "no product has a parallel dimension n of its own"),
        (0, f"{GRID}, sums = [[1, <>, []]]", "there is no op 1"),
        (0, f'{GRID}, sums = [[0, <>, ["m"]]]', "op 0 has no sums along m"),
        (
            0,
            f"{GRID}, tiles = <k=4>, sums = [[0, <k=6>, []]]",
            "a block of 6 points of k is no multiple of the tile of 4",
        ),
        (0, f'{GRID}, around = [[0, "k", 4]]', "op 0 has no tile, and a loop around it"),
        (0, f'{GRID}, skips = [[1, "k"]]', "there is no op 1"),
        (
            0,
            f'{GRID}, skips = [[0, "k"]]',
            "nothing says where the terms of op 0 along k are zero",
        ),
        (0, f"{GRID}, packs = [[0, 2, 0]]", "there is no operand 2 of op 0"),
        (0, f"{GRID}, packs = [[0, 1, 0], [0, 1, 8]]", "an operand is packed twice"),
        (0, f"{GRID}, tiles = <m=20, n=8>, promotes = [[0, 1]]", ""),
        (0, f"{GRID}, promotes = [[0, 1]]", ""),
        (0, f"{GRID}, promotes = [[0, 2]]", "there is no operand 2 of op 0"),
        (
            0,
            f"{GRID}, tiles = <m=20>, packs = [[0, 1, 0]], promotes = [[0, 1]]",
            "an operand is copied twice",
        ),
        (1, f"{ROWS}, promotes = [[0, 0]]", "r has no known extent, and op 0 an operand that is"),
        (
            0,
            f"{GRID}, tiles = <m=20, n=40, k=8>, unroll = [8, 40000]",
            "loops of 40000 elements would be written out, and 32768 may",
        ),
        (0, f"{GRID}, cover = [['m', 8, [4, 1]]]".replace("'", '"'), "m has a known extent"),
        (1, f"{ROWS}, tiles = <r=4>", "r has no known extent: it is covered, and not tiled"),
        (1, f'{ROWS}, cover = [["r", 8, [4, 2, 1]]]', ""),
        (1, f'{ROWS}, cover = [["r", 8, [4, 2]]]', "the steps 4, 2 over r don't end with 1"),
        (1, f'{ROWS}, cover = [["r", 8, [2, 4, 1]]]', "the steps 2, 4, 1 over r don't fall"),
        (
            1,
            f'{ROWS}, cover = [["r", 2, [4, 1]]]',
            "an instance has 2 points of r, and its first step 4",
        ),
        (
            1,
            f'{ROWS}, cover = [["r", 8, [4, 0]]]',
            "the rows of r are held by two or three lengths of steps above 1",
        ),
        (
            1,
            f'{ROWS}, cover = [["r", 16, [16, -1]]]',
            "a step over r is not partial, as its points don't lie side by side",
        ),
    ],
)
def test_what_is_wrong_with_a_schedule_is_said(group: int, text: str, said: str) -> None:
    module = parse_module(PRODUCT)
    ops = [op for op in module.main.body.ops if isinstance(op, Group)]
    schedule = parse_schedules(f'"it" = schedule<{text}>')["it"]
    wrong = legal(ops[group], schedule, Options(target="avx512").machine)
    assert [w.startswith(said) for w in wrong] == ([True] if said else [])


def test_options_refuse_what_is_no_schedule() -> None:
    with pytest.raises(UserError, match="must be text by the names of groups"):
        Options(schedules={"a": 3})  # type: ignore[dict-item]
