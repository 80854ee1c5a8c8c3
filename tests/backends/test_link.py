"""Object code: what is generated for each target, how objects are linked and images loaded."""

import ctypes
import gc
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from minicc.backends.base import OUTSIDE, Image
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import assembly, optimise
from minicc.errors import CompilerBug
from minicc.runtime.image import load
from minicc.target import TARGETS, Target

HOST = Target.host()
LONG = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def dot_ir(target: Target) -> str:
    """A loop that sums squares in one register of `target`, plus constants from memory."""
    lanes = target.lanes(32)
    vector = f"<{lanes} x float>"
    constants = ", ".join(f"float {lane}.5" for lane in range(lanes))
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define void @dot(ptr noalias %a, ptr noalias %b, i64 %n) nounwind {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %sum = phi {vector} [zeroinitializer, %entry], [%more, %loop]
  %at = getelementptr {vector}, ptr %a, i64 %i
  %x = load {vector}, ptr %at, align 4
  %y = fadd {vector} %x, <{constants}>
  %more = call {vector} @llvm.fma.v{lanes}f32({vector} %y, {vector} %y, {vector} %sum)
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  store {vector} %more, ptr %b, align 4
  ret void
}}
"""


@pytest.mark.parametrize(("name", "register"), [("avx512", "%zmm"), ("avx2", "%ymm")])
def test_widest_registers_and_fused_multiply_add_are_used(name: str, register: str) -> None:
    text = assembly(dot_ir(Target.named(name)), Target.named(name))
    (fma,) = (line for line in text.splitlines() if "vfmadd" in line)
    assert register in fma


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_constants_need_no_64_bit_address(target: Target) -> None:
    text = assembly(dot_ir(target), target)
    assert "(%rip)" in text
    assert "movabs" not in text


def test_threads_generate_the_same_code_at_once() -> None:
    jobs = [(dot_ir(target), target) for target in TARGETS.values()] * 8
    alone = [optimise(*job) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: optimise(*job), jobs))
    assert together == alone
    broken = "define void @f() { ret i32 0 }"
    with ThreadPoolExecutor(4) as pool:
        tries = [pool.submit(optimise, broken, HOST) for _ in range(8)]
        assert all(isinstance(t.exception(), CompilerBug) for t in tries)


def test_baseline_uses_no_avx() -> None:
    base = Target.named("x86-64")
    assert not any(
        line.strip().startswith("v") for line in assembly(dot_ir(base), base).splitlines()
    )


def test_code_computes_in_every_lane() -> None:
    library = load(link([Object(optimise(dot_ir(HOST), HOST))], ["dot"]))
    lanes = HOST.lanes(32)
    numbers = [lane % 7 - 3.0 for lane in range(4 * lanes)]
    given = (ctypes.c_float * len(numbers))(*numbers)
    result = (ctypes.c_float * lanes)()
    dot = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library["dot"])
    dot(ctypes.addressof(given), ctypes.addressof(result), 4)
    expected = [sum((x + lane + 0.5) ** 2 for x in numbers[lane::lanes]) for lane in range(lanes)]
    assert list(result) == expected


def test_objects_call_each_other_and_the_c_library() -> None:
    many = 40
    kernels = [
        Object(
            optimise(f"define i64 @kernel{i}(i64 %x) {{ %y = add i64 %x, {i} ret i64 %y }}", HOST)
        )
        for i in range(many)
    ]
    lines = [f"declare i64 @kernel{i}(i64)" for i in range(many)]
    lines += ["declare double @floor(double)", "declare double @fmod(double, double)"]
    lines += ["define i64 @main(i64 %v0) {"]
    lines += [f"%v{i + 1} = call i64 @kernel{i}(i64 %v{i})" for i in range(many)]
    lines += [
        f"%x = sitofp i64 %v{many} to double",
        "%y = fadd double %x, 0.75",
        "%z = call double @floor(double %y)",
        "%m = call double @fmod(double %z, double 1000.0)",
        "%r = fptosi double %m to i64",
        "ret i64 %r }",
    ]
    image = link(
        [Object(optimise("\n".join(lines), Target.named("x86-64"))), *kernels],
        ["main", "kernel7"],
    )
    assert {*image.outside} <= {"floor", "fmod"}
    library = load(image)
    assert LONG(library["main"])(1000) == math.fmod(1000 + sum(range(many)), 1000)
    assert LONG(library["kernel7"])(1) == 8
    assert "kernel8" not in library


def test_memory_intrinsics_reach_the_c_library() -> None:
    text = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @fill(ptr %a, ptr %b, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %a, i8 7, i64 %n, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %b, ptr %a, i64 %n, i1 false)
  ret void
}
"""
    library = load(link([Object(optimise(text, HOST))], ["fill"]))
    a, b = ctypes.create_string_buffer(5000), ctypes.create_string_buffer(5000)
    fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library["fill"])
    fill(ctypes.addressof(a), ctypes.addressof(b), 4999)
    assert b.raw == b"\7" * 4999 + b"\0"


def test_libraries_are_independent_and_close() -> None:
    def answer(value: int) -> Image:
        return link([Object(optimise(f"define i64 @f(i64 %x) {{ ret i64 {value} }}", HOST))], ["f"])

    one, two = load(answer(1)), load(answer(2))
    f = LONG(two["f"])
    assert LONG(one["f"])(0) == 1
    one.close()
    one.close()
    del one
    gc.collect()
    assert f(0) == 2


@pytest.mark.parametrize(
    ("texts", "symbols", "culprit"),
    [
        (["define void @f() { call void @nowhere() ret void } declare void @nowhere()"], ["f"],
         "nowhere"),
        (["define void @f() { ret void }"], ["f", "absent"], "absent"),
        (["@v = global i32 7 define i32 @f() { %x = load i32, ptr @v ret i32 %x }"], ["f"],
         ".data"),
        (["@v = external global i32 define i32 @f() { %x = load i32, ptr @v ret i32 %x }"], ["f"],
         "relocation 42 of v"),
        (["declare i32 @getpid() define i32 @f() { %x = call i32 @getpid() ret i32 %x }"], ["f"],
         "getpid"),
        (["define void @f() { ret void }", "define void @f() { ret void }"], ["f"], "f"),
    ],
)  # fmt: skip
def test_bad_links_are_bugs(texts: list[str], symbols: list[str], culprit: str) -> None:
    with pytest.raises(CompilerBug) as caught:
        link([Object(optimise(text, HOST)) for text in texts], symbols)
    assert caught.value.code == "MC0302"
    assert culprit in str(caught.value)


def test_tables_of_jumps_are_relative() -> None:
    cases = "\n".join(f"i64 {i}, label %b{i}" for i in range(12))
    blocks = "\n".join(f"b{i}:\n %y{i} = call i64 @g{i}(i64 %x)\n ret i64 %y{i}" for i in range(12))
    functions = "\n".join(
        f"define internal i64 @g{i}(i64 %x) noinline {{ %y = mul i64 %x, {i * i + 3} ret i64 %y }}"
        for i in range(12)
    )
    text = (
        f"{functions}\ndefine i64 @f(i64 %x) {{\nentry:\n switch i64 %x, label %else [ {cases} ]\n"
        f"{blocks}\nelse:\n ret i64 -1\n}}"
    )
    f = LONG((library := load(link([Object(optimise(text, HOST))], ["f"])))["f"])
    assert [f(x) for x in range(13)] == [*[x * (x * x + 3) for x in range(12)], -1]
    library.close()


def test_every_function_outside_is_there() -> None:
    load(Image(b"\xc3", {"f": 0}, OUTSIDE)).close()


def test_no_other_function_is_given_to_an_image() -> None:
    for names in (("system",), ("memset", "execve"), ("memset",) * 1000):
        with pytest.raises(CompilerBug, match="an image wants"):
            load(Image(b"\xc3", {"f": 0}, names))


def test_code_and_its_table_are_written_by_nobody() -> None:
    library = load(link([Object(optimise(dot_ir(HOST), HOST))], ["dot"]))
    start, end = (library["dot"] & ~4095) - 4096, library["dot"] + 1
    with open("/proc/self/maps", encoding="ascii") as lines:
        ranges = [line.split()[:2] for line in lines]
    allowed = {
        flags
        for bounds, flags in ranges
        for low, high in [(int(n, 16) for n in bounds.split("-"))]
        if low < end and start < high
    }
    assert allowed == {"r--p", "r-xp"}


@pytest.mark.parametrize(
    "text",
    [
        "define void @f() { ret i64 }",
        "define i64 @f(i64 %x) {\na:\n br label %c\nb:\n %y = add i64 %x, 1\n br label %c\n"
        "c:\n ret i64 %y\n}",
    ],
)
def test_bad_ir_is_a_bug_with_the_text(text: str) -> None:
    with pytest.raises(CompilerBug) as caught:
        optimise(text, HOST)
    assert caught.value.code == "MC0301"
    assert text in str(caught.value)
