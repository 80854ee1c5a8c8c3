"""Writes the kernels of the proofs as text beside this file: `python -m benchmarks.proofs.write`.

The texts are what `run.py` parses and measures; a test sees that they are these kernels.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.proofs.direct import Convolution, convolution
from benchmarks.proofs.fused_winograd import Winograd, winograd
from benchmarks.proofs.rowwise import Attention, attention, softmax

from minicc.ir.core import Module
from minicc.ir.printer import print_module

HERE = Path(__file__).parent

CONVOLUTION = Convolution(28, 28, 128, 128, stride=2, residual=True)
WINOGRADS = {
    "winograd_56x64": Winograd(56, 56, 64, 64, tile_rows=1, channels=64),
    "winograd_28x128": Winograd(28, 28, 128, 128, tile_rows=7, channels=64),
    "winograd_14x512": Winograd(14, 14, 512, 512, tile_rows=4, channels=256, rows=8),
}
ROWS, COLUMNS = 1024, 1024
ATTENTION = Attention(128, 64)


def proofs() -> dict[str, Module]:
    """The modules of the four proofs, by the names of their files."""
    winograds = [winograd(name, w, f"Conv_{name}") for name, w in WINOGRADS.items()]
    return {
        "convolution": Module("kernel", [convolution("convolution", CONVOLUTION, "Conv_0")]),
        "winograd": Module("kernel", winograds),
        "softmax": Module("kernel", [softmax("softmax", ROWS, COLUMNS, "Softmax_0")]),
        "attention": Module("kernel", [attention("attention", ATTENTION, "Attention_0")]),
    }


def main() -> None:
    """Write the files."""
    for name, module in proofs().items():
        (HERE / f"{name}.mcc").write_text(print_module(module), encoding="utf-8")


if __name__ == "__main__":
    main()
