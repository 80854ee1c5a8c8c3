"""`python -m tests.generate`: random models, hostile files and random functions for a while.

    python -m tests.generate run --minutes 10 [--first SEED] [--only model] [--folder build/fuzz]
    python -m tests.generate seed 17 [--family conv]      judge one model in all forms, print it
    python -m tests.generate hostile-seed 17              open one hostile file
    python -m tests.generate function-seed 17             judge one function, print it as a script

A run goes on where the last one in its folder ended. Cases are judged in a process of their own,
so that one which crashes or hangs is a finding and not the end; what fails is shrunk and written
into the folder. The exit status is 1 where there was a finding.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from minicc.errors import MiniccError
from tests.generate.draft import Case
from tests.generate.files import write_case, write_damaged, write_program
from tests.generate.functions.growth import generate as generate_function
from tests.generate.functions.oracle import judge as judge_function
from tests.generate.functions.program import Program
from tests.generate.growth import generate
from tests.generate.hostile import damaged, offence
from tests.generate.oracle import Finding, judge, onnxruntime
from tests.generate.shrink import shrink, shrunk
from tests.generate.supervise import SECONDS, supervise


def check_model(seed: int, folder: Path) -> list[str]:
    """Judge the model of a seed; findings are shrunk and written."""
    case = generate(seed)
    findings = judge(case, seed)
    if not findings:
        return []
    kinds = {(f.kind, f.who) for f in findings}

    def fails(smaller: Case) -> bool:
        return bool(kinds & {(f.kind, f.who) for f in judge(smaller, seed)})

    small = shrink(case, fails)
    found = [f for f in judge(small, seed) if (f.kind, f.who) in kinds] or findings
    path = write_case(folder, small, seed, found)
    names = " ".join(node.op_type for node in small.nodes)
    return [f"{f.kind} ({f.who}) {names}: {f.text} [{path}]" for f in found]


def check_hostile(seed: int, folder: Path) -> list[str]:
    """Open the hostile file of a seed."""
    data = damaged(seed)
    if not (text := offence(data, seed)):
        return []
    return [f"{text} [{write_damaged(folder, data, seed, text)}]"]


def check_function(seed: int, folder: Path) -> list[str]:
    """Judge the function of a seed; findings are shrunk and written."""
    program = generate_function(seed)
    found = judge_function(program).found
    if not found:
        return []

    def kind(text: str) -> str:
        return re.sub(r"\W.*", "", text.partition(": ")[2])

    def fails(smaller: Program) -> bool:
        try:
            return kind(found[0]) in map(kind, judge_function(smaller).found)
        except (SyntaxError, NameError, MiniccError):  # a line that another needs is gone
            return False

    small = shrunk(program, fails, Program.smaller)
    found = judge_function(small).found
    path = write_program(folder, small, seed, found)
    return [f"{found[0]} [{path}]"]


CHECKS = {"model": check_model, "hostile": check_hostile, "function": check_function}


def work(first: int, kind: str, folder: Path) -> None:
    """Judge seed after seed; a line of JSON before and after each."""
    check = CHECKS[kind]
    seed = first
    while True:
        print(json.dumps({"seed": seed}), flush=True)
        print(json.dumps({"seed": seed, "found": check(seed, folder)}), flush=True)
        seed += 1


def show(seed: int, family: str | None) -> list[Finding]:
    """Print the model of a seed and judge it in all forms."""
    case = generate(seed, family)
    print(f"opset {case.opset}, outputs {' '.join(case.outputs)}")
    for node in case.nodes:
        attributes = ", ".join(a.name for a in node.attribute)
        print(f"  {' '.join(node.output)} = {node.op_type}({', '.join(node.input)}) {attributes}")
    for name in sorted(case.used() & {*case.inputs, *case.constants}):
        kind = "input" if name in case.inputs else "constant"
        a = case.inputs.get(name, case.constants.get(name))
        assert a is not None
        print(f"  {kind} {name}: {a.dtype}{list(a.shape)} {a.ravel()[:12].tolist()}")
    findings = judge(case, everything=True)
    for found in findings:
        print(f"{found.kind} ({found.who}): {found.text}")
    return findings


def main() -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description="random models, functions and hostile files")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--minutes", type=float, default=10)
    run.add_argument("--first", type=int)
    run.add_argument("--only", choices=tuple(SECONDS))
    run.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    one = commands.add_parser("seed")
    one.add_argument("seed", type=int)
    one.add_argument("--family")
    commands.add_parser("hostile-seed").add_argument("seed", type=int)
    commands.add_parser("function-seed").add_argument("seed", type=int)
    worker = commands.add_parser("work")
    worker.add_argument("first", type=int)
    worker.add_argument("--kind", choices=tuple(CHECKS), required=True)
    worker.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "seed":
        return int(bool(show(given.seed, given.family)))
    if given.command == "hostile-seed":
        text = offence(damaged(given.seed), given.seed)
        print(text or "as it should")
        return int(bool(text))
    if given.command == "function-seed":
        program = generate_function(given.seed)
        judged = judge_function(program)
        print(program.script(), *judged.found or [judged.refused or "as NumPy"], sep="\n# ")
        return int(bool(judged.found))
    if given.command == "work":
        work(given.first, given.kind, given.folder)
    print(f"ONNX Runtime is {'' if onnxruntime() else 'not '}installed")
    kinds = [given.only] if given.only else list(SECONDS)
    return supervise(given.folder, given.minutes * 60, given.first, kinds)


if __name__ == "__main__":
    sys.exit(main())
