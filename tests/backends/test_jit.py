"""Object code: what is generated for each target, and how objects are linked."""

import ctypes
import gc
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from minicc.backends.llvm.jit import link
from minicc.backends.llvm.optimize import assembly, optimise
from minicc.errors import CompilerBug
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
    library = link([optimise(dot_ir(HOST), HOST)], ["dot"])
    lanes = HOST.lanes(32)
    numbers = [lane % 7 - 3.0 for lane in range(4 * lanes)]
    given = (ctypes.c_float * len(numbers))(*numbers)
    result = (ctypes.c_float * lanes)()
    dot = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library["dot"])
    dot(ctypes.addressof(given), ctypes.addressof(result), 4)
    expected = [sum((x + lane + 0.5) ** 2 for x in numbers[lane::lanes]) for lane in range(lanes)]
    assert list(result) == expected


def test_objects_call_each_other_and_the_process() -> None:
    many = 40
    kernels = [
        optimise(f"define i64 @kernel{i}(i64 %x) {{ %y = add i64 %x, {i} ret i64 %y }}", HOST)
        for i in range(many)
    ]
    lines = [f"declare i64 @kernel{i}(i64)" for i in range(many)]
    lines += ["declare i32 @getpid()", "declare i64 @given(i64)"]
    lines += ["define i64 @main(i64 %v0) {"]
    lines += [f"%v{i + 1} = call i64 @kernel{i}(i64 %v{i})" for i in range(many)]
    lines += [
        "%pid = call i32 @getpid()",
        "%p = zext i32 %pid to i64",
        f"%s = add i64 %v{many}, %p",
    ]
    lines += ["%r = call i64 @given(i64 %s)", "ret i64 %r }"]
    callback = LONG(lambda value: -value)
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    main = optimise("\n".join(lines), HOST)
    library = link([main, *kernels], ["main", "kernel7"], {"given": address})
    assert LONG(library["main"])(1000) == -(1000 + sum(range(many)) + os.getpid())
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
    library = link([optimise(text, HOST)], ["fill"])
    a, b = ctypes.create_string_buffer(5000), ctypes.create_string_buffer(5000)
    fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library["fill"])
    fill(ctypes.addressof(a), ctypes.addressof(b), 4999)
    assert b.raw == b"\7" * 4999 + b"\0"


def test_libraries_are_independent_and_close() -> None:
    def answer(value: int) -> bytes:
        return optimise(f"define i64 @f(i64 %x) {{ ret i64 {value} }}", HOST)

    one, two = link([answer(1)], ["f"]), link([answer(2)], ["f"])
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
        (["define void @f() { ret void }", "define void @f() { ret void }"], ["f"], "f"),
    ],
)  # fmt: skip
def test_bad_links_are_bugs(
    texts: list[str], symbols: list[str], culprit: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CompilerBug) as caught:
        link([optimise(text, HOST) for text in texts], symbols)
    assert caught.value.code == "MC0302"
    assert culprit in str(caught.value) + capfd.readouterr().err


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
