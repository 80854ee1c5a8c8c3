"""The budgets that keep the source legible: sizes, docstrings, and where imports may stand.

Each check takes a module and yields what it finds wrong as `path:line: message`.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "minicc"

MEDIAN_MODULE = 180
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
LONGEST_LINE = 100

# The one module that may read the environment, and the names by which it could be read.
READS_ENVIRONMENT = SOURCE / "options.py"
ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})

# What instruction sets and their instructions are called, and where they may be named: in what is
# said of them, and among the machines that one may ask for.
INSTRUCTION_SETS = re.compile(
    r"x86|\bsse\d|\bavx|vnni|\bamx\b|\bneon\b|\bsve\b|aarch64|mxcsr|\bv?p[a-z]+(wd|bus)d\b", re.I
)
NAMES_THEM = (SOURCE / "backends" / "llvm" / "isa", SOURCE / "target.py")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Module:
    """A source file, as lines and as a tree."""

    path: Path
    text: str

    def __post_init__(self) -> None:
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text, str(self.path))

    def at(self, line: int, message: str) -> str:
        inside = self.path.is_relative_to(ROOT)
        return f"{self.path.relative_to(ROOT) if inside else self.path}:{line}: {message}"

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS))


Check = Callable[[Module], Iterator[str]]


def module_length(module: Module) -> Iterator[str]:
    if (length := len(module.lines)) > LONGEST_MODULE:
        yield module.at(LONGEST_MODULE + 1, f"{length} lines, at most {LONGEST_MODULE}")


def function_length(module: Module) -> Iterator[str]:
    for function in module.functions():
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > LONGEST_FUNCTION:
            message = f"{function.name} has {length} lines, at most {LONGEST_FUNCTION}"
            yield module.at(function.lineno, message)


def line_length(module: Module) -> Iterator[str]:
    for number, line in enumerate(module.lines, start=1):
        if len(line) > LONGEST_LINE:
            yield module.at(number, f"{len(line)} characters, at most {LONGEST_LINE}")


def docstrings(module: Module) -> Iterator[str]:
    """Modules, public classes, and public functions outside of classes need one.

    Methods may do without: the facets of an op are documented once, at the base class.
    """
    if not ast.get_docstring(module.tree):
        yield module.at(1, "module without a docstring")
    waiting: list[ast.stmt] = list(module.tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If | ast.Try):
            children = ast.iter_child_nodes(node)
            waiting += [child for child in children if isinstance(child, ast.stmt)]
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                yield module.at(node.lineno, f"{node.name} without a docstring")
            if isinstance(node, ast.ClassDef):
                waiting += [child for child in node.body if isinstance(child, ast.ClassDef)]


def own_imports_at_the_top(module: Module) -> Iterator[str]:
    found: dict[int, str] = {}
    for function in module.functions():
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom):
                names = ["minicc"] if node.level else [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            if any(name.split(".")[0] == "minicc" for name in names):
                found[node.lineno] = f"{function.name} imports a module of minicc; import it on top"
    for line, message in sorted(found.items()):
        yield module.at(line, message)


def environment(module: Module) -> Iterator[str]:
    if module.path == READS_ENVIRONMENT:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            names = {node.attr}
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            names = {alias.name for alias in node.names}
        else:
            continue
        if names & ENVIRONMENT:
            yield module.at(node.lineno, "only options.py reads the environment")


def instruction_sets(module: Module) -> Iterator[str]:
    if any(module.path.is_relative_to(place) for place in NAMES_THEM):
        return
    for number, line in enumerate(module.lines, 1):
        if found := INSTRUCTION_SETS.search(line):
            yield module.at(
                number, f"{found[0]} names an instruction set outside of backends/llvm/isa"
            )


CHECKS: tuple[Check, ...] = (
    module_length,
    function_length,
    line_length,
    docstrings,
    own_imports_at_the_top,
    environment,
    instruction_sets,
)


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    paths = sorted(SOURCE.rglob("*.py"))
    assert paths, f"no modules under {SOURCE}"
    return [Module(path, path.read_text(encoding="utf-8")) for path in paths]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_source(check: Check, modules: list[Module]) -> None:
    found = [message for module in modules for message in check(module)]
    assert not found, "\n" + "\n".join(found)


def test_median_module(modules: list[Module]) -> None:
    middle = median(len(module.lines) for module in modules)
    assert middle <= MEDIAN_MODULE, f"median module has {middle} lines, at most {MEDIAN_MODULE}"


GUILTY: dict[Check, str] = {
    module_length: '"""Doc."""\n' + "x = 0\n" * LONGEST_MODULE,
    function_length: "def f():\n" + "    x = 0\n" * LONGEST_FUNCTION,
    line_length: "#" * (LONGEST_LINE + 1),
    docstrings: '"""Doc."""\nif True:\n    def f(): ...\n',
    own_imports_at_the_top: "class C:\n    def f(self):\n        from . import ir\n",
    environment: "import os\nhome = os.environ['HOME']\n",
    instruction_sets: '"""Doc."""\nwide = "avx512f" in flags\n',
}
INNOCENT: dict[Check, str] = {
    module_length: '"""Doc."""\n' + "x = 0\n" * (LONGEST_MODULE - 1),
    function_length: "def f():\n" + "    x = 0\n" * (LONGEST_FUNCTION - 1),
    line_length: "#" * LONGEST_LINE,
    docstrings: '"""Doc."""\ndef _f(): ...\nclass C:\n    """Doc."""\n    def g(self): ...\n',
    own_imports_at_the_top: "from minicc import ir\ndef f():\n    import onnx\n",
    environment: "import os\ncount = os.cpu_count()\n",
    instruction_sets: '"""Doc."""\nwide = target.lanes(32) == 16\n',
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_check_finds_the_guilty_alone(check: Check) -> None:
    (message,) = check(Module(Path("guilty.py"), GUILTY[check]))
    assert message.startswith("guilty.py:")
    assert not list(check(Module(Path("innocent.py"), INNOCENT[check])))
