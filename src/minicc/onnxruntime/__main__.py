"""`python -m minicc.onnxruntime PROGRAM.py` runs a program with minicc for ONNX Runtime.

Mirrors: `python -m cProfile`, `python -m torch.distributed.run`.
"""

from __future__ import annotations

import os
import runpy
import sys

import click

from minicc.onnxruntime.stand_in import FOLDER


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "module", is_flag=True, help="PROGRAM is the name of a module.")
@click.option("--folder", is_flag=True, help="Print the folder to put in PYTHONPATH, and end.")
@click.argument("program", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(program: str | None, arguments: tuple[str, ...], module: bool, folder: bool) -> None:
    """Run PROGRAM, a file or a module, with minicc.onnxruntime in onnxruntime's place."""
    if folder:
        click.echo(FOLDER)
        return
    if program is None:
        raise click.UsageError("name a program")
    if not module and not os.path.exists(program):
        raise click.UsageError(f"there is no program {program}")
    sys.argv = [program, *arguments]
    # as Python itself: the folder of a file, or the one where a module is run
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(program))
    sys.path.insert(0, FOLDER)
    if module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    run(prog_name="python -m minicc.onnxruntime")
