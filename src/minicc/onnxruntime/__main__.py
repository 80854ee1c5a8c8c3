"""`python -m minicc.onnxruntime PROGRAM.py` runs a program with minicc for ONNX Runtime."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from minicc.onnxruntime.stand_in import FOLDER


def main() -> None:
    """Run the program that the command line names, or print the folder for PYTHONPATH."""
    parser = argparse.ArgumentParser(
        prog="python -m minicc.onnxruntime",
        description="Run a program with minicc.onnxruntime in the place of onnxruntime.",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module's name")
    parser.add_argument(
        "--folder", action="store_true", help="print the folder that does so in PYTHONPATH, and end"
    )
    parser.add_argument("program", nargs="?", help="a file or, with -m, a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    asked = parser.parse_args()
    if asked.folder:
        print(FOLDER)
        return
    if asked.program is None:
        parser.error("name a program")
    if not asked.module and not os.path.exists(asked.program):
        parser.error(f"there is no program {asked.program}")
    sys.argv = [asked.program, *asked.arguments]
    # as Python itself: the folder of a file, or the one where a module is run
    sys.path[0] = os.getcwd() if asked.module else os.path.dirname(os.path.abspath(asked.program))
    sys.path.insert(0, FOLDER)
    if asked.module:
        runpy.run_module(asked.program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(asked.program, run_name="__main__")


if __name__ == "__main__":
    main()
