"""Measure the vector mathematics: worst error over all float32 arguments, and throughput.

Every function is compiled in a loop for each of three x86-64 targets that this machine can run and
compared with a float64 evaluation (NumPy's; for erf SciPy's if there is one, else `math.erf`). A
float32 function's argument is its bit pattern, so that `--stride 1` means all 2**32 of them;
float64 functions are sampled, against the 80-bit `long double` of the C library.

    python tools/measure_math.py [exp log ...] [--stride N] [--target avx512 avx2 x86-64]
    python tools/measure_math.py --float64 [--count N]
    python tools/measure_math.py --speed
"""

import argparse
import ctypes
import ctypes.util
import importlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from minicc.backends.llvm import circular, hyperbolic, logarithms
from minicc.backends.llvm import math as vector_math
from minicc.backends.llvm.isa.table import writer_for
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import assembly, optimise
from minicc.backends.llvm.power import cbrt
from minicc.backends.llvm.writer import Vec, Writer
from minicc.runtime.image import load
from minicc.target import TARGETS, Target

Array = npt.NDArray[Any]
CHUNK = 1 << 21


FUNCTIONS: dict[str, Callable[[Writer, Vec, str], str]] = {
    "exp": vector_math.exp,
    "exp2": vector_math.exp2,
    "expm1": vector_math.expm1,
    "exp2_nonpositive": vector_math.exp2_nonpositive,
    "log": vector_math.log,
    "log2": logarithms.log2,
    "log10": logarithms.log10,
    "cbrt": cbrt,
    "tanh": vector_math.tanh,
    "erf": vector_math.erf,
    "sigmoid": vector_math.sigmoid,
    "sin": circular.sin,
    "cos": circular.cos,
    "tan": circular.tan,
    "asin": circular.asin,
    "acos": circular.acos,
    "atan": circular.atan,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "asinh": hyperbolic.asinh,
    "acosh": hyperbolic.acosh,
    "atanh": hyperbolic.atanh,
}


LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Loop:
    """A function compiled as a loop over an array, as the compiler does it: no LLVM passes."""

    def __init__(self, name: str, target: Target, t: Vec) -> None:
        self.t = t
        text = self.text(name, target, t)
        self.assembly = assembly(text, target)
        self.library = load(link([Object(optimise(text, target))], ["loop"]))
        self.entry = LOOP(self.library["loop"])

    @staticmethod
    def text(name: str, target: Target, t: Vec) -> str:
        """The module of LLVM IR."""
        w = writer_for(target)
        w.line("br label %body")
        w.label("body")
        start = len(w.lines)
        x = w.inst(f"getelementptr {t.element}, ptr %in, i64 %i")
        x = w.inst(f"load {t}, ptr {x}, align {t.bits // 8}")
        y = FUNCTIONS[name](w, t, x)
        out = w.inst(f"getelementptr {t.element}, ptr %out, i64 %i")
        w.line(f"store {t} {y}, ptr {out}, align {t.bits // 8}")
        w.line(f"%next = add i64 %i, {t.lanes}")
        w.line("%more = icmp slt i64 %next, %n")
        w.line("br i1 %more, label %body, label %end")
        w.lines.insert(start, f"  %i = phi i64 [ 0, %entry ], [ %next, %{w.block} ]")
        w.label("end")
        w.line("ret void")
        head = "define void @loop(ptr noalias %in, ptr noalias %out, i64 %n) {\nentry:"
        return f"{head}\n{w.text()}\n}}\n{w.declarations()}\n"

    def __call__(self, x: Array) -> Array:
        """The function of every element; pads to whole vectors."""
        padded = np.resize(x, (x.size + self.t.lanes - 1) // self.t.lanes * self.t.lanes)
        out = np.empty_like(padded)
        self.entry(padded.ctypes.data, out.ctypes.data, padded.size)
        return out[: x.size]


def within(name: str, x: Array) -> Array:
    """Arguments, made such as the function is for."""
    return -np.abs(x) if name == "exp2_nonpositive" else x


def reference(name: str, x: Array) -> Array:
    """The function in the precision of x, which has more of it than what is measured."""
    with np.errstate(all="ignore"):
        if name == "erf":
            return erf(x)
        if name == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-x)))
        return np.asarray(getattr(np, name.removesuffix("_nonpositive"))(x))


def erf(x: Array) -> Array:
    """The error function, NumPy having none."""
    if x.dtype == np.longdouble:
        return long_double_erf(x)
    try:
        special: Any = importlib.import_module("scipy.special")
    except ImportError:
        return np.array([math.erf(value) for value in x.tolist()])
    return np.asarray(special.erf(x))


def long_double_erf(x: Array) -> Array:
    """The erfl of the C library; ctypes would narrow its result, so a compiled loop calls it."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    address = ctypes.cast(library.erfl, ctypes.c_void_p).value or 0
    text = f"""
define void @loop(ptr %in, ptr %out, i64 %n) {{
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %a = getelementptr x86_fp80, ptr %in, i64 %i
  %x = load x86_fp80, ptr %a
  %y = call x86_fp80 inttoptr (i64 {address} to ptr)(x86_fp80 %x)
  %b = getelementptr x86_fp80, ptr %out, i64 %i
  store x86_fp80 %y, ptr %b
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %end
end:
  ret void
}}"""
    code = load(link([Object(optimise(text, TARGETS["x86-64"]))], ["loop"]))
    out = np.empty_like(x)
    LOOP(code["loop"])(x.ctypes.data, out.ctypes.data, x.size)
    return out


def errors_in_ulp(result: Array, exact: Array, smallest: float) -> Array:
    """|result - exact| in units of the last place of the exact value's binade.

    Results whose exact value is below the normal range count as right if they are within one
    smallest normal number (they may be flushed), infinite ones and NaN if they are equal.
    """
    info = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        _, exponent = np.frexp(exact)
        ulp = np.ldexp(np.ones_like(exact), exponent - 1 - info.nmant)
        error = np.abs(result.astype(exact.dtype) - exact) / ulp
        odd = ~np.isfinite(rounded) | ~np.isfinite(result)
        same = (rounded == result) | (np.isnan(rounded) & np.isnan(result))
        error = np.where(odd, np.where(same, 0.0, np.inf), error)
        tiny = np.abs(exact) < smallest
        flushed = np.abs(result) <= smallest
        return np.where(tiny & ~odd, np.where(flushed, 0.0, np.inf), error)


def worst_error(name: str, target: Target, stride: int) -> tuple[float, float]:
    """The worst error in ULP and the argument that has it."""
    loop = Loop(name, target, Vec(target.lanes(32), "float"))
    worst, where = 0.0, 0.0
    smallest = float(np.finfo(np.float32).smallest_normal)
    for start in range(0, 1 << 32, CHUNK * stride):
        stop = min(start + CHUNK * stride, 1 << 32)
        x = np.arange(start, stop, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)
        x = within(name, x)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            wide = x.astype(np.float64)
        e = errors_in_ulp(loop(x), reference(name, wide), smallest)
        i = int(e.argmax())
        if e[i] > worst:
            worst, where = float(e[i]), float(x[i])
    return worst, where


def worst_error_double(name: str, target: Target, count: int) -> tuple[float, float]:
    """The same for float64 over a sample: magnitudes of all exponents, and densely near 1."""
    loop = Loop(name, target, Vec(target.lanes(64), "double"))
    rng = np.random.default_rng(0)
    spread = rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
    x = np.concatenate(
        [
            spread,
            rng.uniform(-2, 2, count),
            rng.uniform(-8, 8, count),
            rng.uniform(-750, 750, count),
        ]
    )
    x = within(name, x)
    smallest = float(np.finfo(np.float64).smallest_normal)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.longdouble)
    e = errors_in_ulp(loop(x), reference(name, wide), smallest)
    i = int(e.argmax())
    return float(e[i]), float(x[i])


def nanoseconds(name: str, target: Target, element: str) -> tuple[float, int]:
    """The time for one element in the first-level cache, and the instructions in the loop."""
    lanes = target.lanes(32 if element == "float" else 64)
    loop = Loop(name, target, Vec(lanes, element))
    x = np.linspace(-5, 5, 4096, dtype=np.float32 if element == "float" else np.float64)
    x = within(name, x)
    out = np.empty_like(x)

    def seconds(size: int) -> float:
        best = math.inf
        for _ in range(30):
            start = time.perf_counter()
            for _ in range(100):
                loop.entry(x.ctypes.data, out.ctypes.data, size)
            best = min(best, time.perf_counter() - start)
        return best / 100

    # The call itself costs more than a microsecond: two sizes cancel it.
    return (seconds(x.size) - seconds(lanes)) / (x.size - lanes) * 1e9, loop_length(loop.assembly)


def loop_length(assembly: str) -> int:
    """How many instructions the loop has, its five of control, load and store included."""
    lines = assembly.split("\n")
    jumps = [i for i, line in enumerate(lines) if line.startswith("\tj")]
    label = lines[jumps[-1]].split()[-1] + ":"
    first = next(i for i, line in enumerate(lines) if line.startswith(label))
    body = lines[first : jumps[-1] + 1]
    return sum(1 for line in body if line.startswith("\t") and line[1] not in ".#")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("functions", nargs="*", default=list(FUNCTIONS))
    parser.add_argument("--target", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--stride", type=int, default=251, help="1: every float32")
    parser.add_argument("--float64", action="store_true", help="measure the float64 functions")
    parser.add_argument("--count", type=int, default=1_000_000, help="arguments a range (float64)")
    parser.add_argument("--speed", action="store_true", help="measure the time instead")
    arguments = parser.parse_args()
    for name in arguments.functions:
        for key in arguments.target:
            target = TARGETS[key]
            if not target.runs_here():
                print(f"{name:16} {key:9} not on this machine")
            elif arguments.speed:
                element = "double" if arguments.float64 else "float"
                time_ns, length = nanoseconds(name, target, element)
                print(f"{name:16} {key:9} {time_ns:.3f} ns an element, loop of {length}")
            else:
                start = time.perf_counter()
                if arguments.float64:
                    worst, where = worst_error_double(name, target, arguments.count)
                else:
                    worst, where = worst_error(name, target, arguments.stride)
                seconds = time.perf_counter() - start
                print(f"{name:16} {key:9} {worst:.3f} ULP at {where!r}  ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
