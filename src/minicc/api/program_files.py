"""Writing a model's compiled program to a file of its own, with the text of what was compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from minicc.api.inputs import signature_of
from minicc.api.node_args import declared_of
from minicc.compile.compiled import build, facts_of
from minicc.compile.observe import write_beside
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.model.reader import Model
from minicc.ir.text.printer import print_module
from minicc.options import Options
from minicc.runtime.saved import save


def write_model(read: Model, path: Path, binding: Mapping[str, int], options: Options) -> None:
    """Compile a model that was read to a file, for all sizes that the binding does not give.

    UnsupportedError where nodes need to know sizes that have none, UserError where the file can't
    be written.
    """
    module = import_graph(read, binding)
    made = build(module, options, {})
    known = facts_of(signature_of(module.main), read.outputs, module, options)
    facts = known._replace(declared=declared_of(read.declared), about=read.about)
    facts = made.facts(facts, binding)
    facts = facts._replace(seconds={})  # which make one file of a model differ from the next
    texts = [print_module(program) for program in made.programs]

    def write(file: IO[bytes]) -> None:
        save(file, made.built, facts, options.machine.name, {}, texts)

    write_beside(path, write)
