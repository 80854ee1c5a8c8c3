"""Each pass on a small program: text before, text after, compared whole.

A file holds the input, a line `// -----`, and what the pass makes of it, printed without
locations. `pytest tests/passes --update` writes the second half anew; read the difference before
it is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minicc.compile.compiler import STAGES, KernelPasses, Setting
from minicc.ir import dialects
from minicc.ir.core import Literal, Module
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.verify import verify
from minicc.options import Options

HERE = Path(__file__).parent
MARK = "// -----\n"
CASES = sorted(HERE.glob("*/*.mcc"))
# what texts elide: weights large enough that an algorithm other than the direct one pays
WEIGHTS = np.linspace(-1, 1, 32 * 32 * 9, dtype=np.float32).reshape(32, 32, 3, 3)
RESOURCES = {Literal(WEIGHTS).digest: WEIGHTS}
assert dialects.DIALECTS


def stage(name: str) -> Callable[[Module], Module]:
    """The pass of a stage as the compiler runs it, for AVX-512."""
    found = next(s for s in STAGES if s.name == name)
    setting = Setting(Options(target="avx512").machine, False, {}, KernelPasses())
    return lambda module: found.run(module, setting)


def test_every_pass_has_a_case() -> None:
    covered = {s.home for s in STAGES if s.name in {c.parent.name for c in CASES}}
    assert {s.home for s in STAGES} == covered


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.parent.name}-{c.stem}")
def test_before_and_after(case: Path, request: pytest.FixtureRequest) -> None:
    before, _, expected = case.read_text().partition(MARK)
    module = parse_module(before, RESOURCES, source=case.name)
    verify(module)
    after = stage(case.parent.name)(module)
    verify(after)
    text = print_module(after, locations=False)
    if request.config.getoption("--update"):
        case.write_text(f"{before.rstrip()}\n\n{MARK}{text.rstrip()}\n")
        return
    assert text.rstrip() == expected.rstrip()
