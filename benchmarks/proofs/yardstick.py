"""The yardstick: a direct 3x3 convolution written as plain LLVM IR, without any layer of ours.

No bias, no blocks of the sum, no overlapping tiles: 14 pixels x 32 channels in registers, and the
two inner loops over kw and ic as one, for at stride 1 that run of the input is contiguous. What
the kernels reach is told as a share of its rate.
"""

from __future__ import annotations

COLUMNS, LANES = 32, 16
V = f"<{LANES} x float>"


def convolution(height: int, width: int, ic: int, oc: int, taps: int = 3, rows: int = 14) -> str:
    """`void @yardstick(x[h + t - 1, w + t - 1, ic], w[oc / 32, t, t, ic, 32], y[h, w, oc])`.

    `rows` pixels of a line are held at once and must divide `width`, as 32 must divide `oc`.
    """
    run = taps * ic
    accumulators = [(r, c) for r in range(rows) for c in range(COLUMNS // LANES)]
    lines = [
        f"declare {V} @llvm.fma.v{LANES}f32({V}, {V}, {V})",
        "define void @yardstick(ptr noalias %x, ptr noalias %w, ptr noalias %y) nounwind {",
        "entry:",
        "  br label %panels",
        *_head("panels", "p", "entry", "panels.end"),
        "  br label %rows",
        *_head("rows", "h", "panels", "rows.end"),
        "  br label %blocks",
        *_head("blocks", "b", "rows", "store"),
        f"  %row = mul i64 %h, {(width + taps - 1) * ic}",
        f"  %left = mul i64 %b, {rows * ic}",
        "  %corner = add i64 %row, %left",
        "  br label %taps",
        *_head("taps", "kh", "blocks", "taps.end"),
    ]
    for r, c in accumulators:
        lines.append(f"  %t{r}.{c} = phi {V} [zeroinitializer, %blocks], [%n{r}.{c}, %taps.end]")
    lines += [
        f"  %down = mul i64 %kh, {(width + taps - 1) * ic}",
        "  %from = add i64 %corner, %down",
        f"  %panel = mul i64 %p, {taps * run * COLUMNS}",
        f"  %line = mul i64 %kh, {run * COLUMNS}",
        "  %weights = add i64 %panel, %line",
        "  br label %inner",
        *_inner(accumulators, ic, run, rows),
        *_tail("taps", "kh", taps, "store", "taps.end"),
        *_store(accumulators, width, oc, rows),
        *_tail("blocks", "b", width // rows, "rows.end"),
        *_tail("rows", "h", height, "panels.end", "rows.end"),
        *_tail("panels", "p", oc // COLUMNS, "exit", "panels.end"),
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _head(label: str, index: str, before: str, back: str) -> list[str]:
    return [f"{label}:", f"  %{index} = phi i64 [0, %{before}], [%{index}.next, %{back}]"]


def _tail(label: str, index: str, count: int, after: str, own: str = "") -> list[str]:
    return [
        *([f"{own}:"] if own else []),
        f"  %{index}.next = add nuw nsw i64 %{index}, 1",
        f"  %{index}.more = icmp slt i64 %{index}.next, {count}",
        f"  br i1 %{index}.more, label %{label}, label %{after}",
    ]


def _inner(accumulators: list[tuple[int, int]], ic: int, run: int, rows: int) -> list[str]:
    """The loop over kw and ic: two loads of weights, then a broadcast and two FMAs a pixel."""
    lines = _head("inner", "k", "taps", "inner")
    for r, c in accumulators:
        lines.append(f"  %a{r}.{c} = phi {V} [%t{r}.{c}, %taps], [%n{r}.{c}, %inner]")
    lines += [
        f"  %offset = mul i64 %k, {COLUMNS}",
        "  %at.w = add i64 %weights, %offset",
        "  %at.x = add i64 %from, %k",
        "  %pw0 = getelementptr float, ptr %w, i64 %at.w",
        f"  %pw1 = getelementptr float, ptr %pw0, i64 {LANES}",
        f"  %w0 = load {V}, ptr %pw0, align 64",
        f"  %w1 = load {V}, ptr %pw1, align 64",
        "  %px = getelementptr float, ptr %x, i64 %at.x",
    ]
    for r in range(rows):
        lines += [
            f"  %px{r} = getelementptr float, ptr %px, i64 {r * ic}",
            f"  %s{r} = load float, ptr %px{r}, align 4",
            f"  %i{r} = insertelement {V} poison, float %s{r}, i32 0",
            f"  %x{r} = shufflevector {V} %i{r}, {V} poison, <{LANES} x i32> zeroinitializer",
        ]
        for c in range(COLUMNS // LANES):
            operands = f"{V} %x{r}, {V} %w{c}, {V} %a{r}.{c}"
            lines.append(f"  %n{r}.{c} = call {V} @llvm.fma.v{LANES}f32({operands})")
    return lines + _tail("inner", "k", run, "taps.end")


def _store(accumulators: list[tuple[int, int]], width: int, oc: int, rows: int) -> list[str]:
    lines = [
        "store:",
        f"  %out.h = mul i64 %h, {width * oc}",
        f"  %out.b = mul i64 %b, {rows * oc}",
        f"  %out.p = mul i64 %p, {COLUMNS}",
        "  %out.hb = add i64 %out.h, %out.b",
        "  %out = add i64 %out.hb, %out.p",
        "  %py = getelementptr float, ptr %y, i64 %out",
    ]
    for r, c in accumulators:
        lines += [
            f"  %py{r}.{c} = getelementptr float, ptr %py, i64 {r * oc + c * LANES}",
            f"  store {V} %n{r}.{c}, ptr %py{r}.{c}, align 64",
        ]
    return lines
