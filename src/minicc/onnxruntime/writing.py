"""What a session writes to `optimized_model_filepath`: an ONNX model, or a compiled program.

Tools that read that file with `onnx` name it .onnx, as ONNX Runtime's own tools do; minicc's
optimisations are made below ONNX, so such a file has the model itself with the data, the numbers of
free dimensions and the places of initialisers that the options give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minicc.compile.observe import write_beside
from minicc.errors import UnsupportedError, UserError
from minicc.later import Later
from minicc.onnxruntime.editing import with_initialisers
from minicc.onnxruntime.log import LOGGER
from minicc.onnxruntime.settings import SessionOptions
from minicc.options import Options
from minicc.runtime.programs import is_program

if TYPE_CHECKING:
    from minicc.api import program_files
    from minicc.frontends.onnx.model import reader
else:
    program_files, reader = (
        Later("minicc.api.program_files"),
        Later("minicc.frontends.onnx.model.reader"),
    )

_UNWRITTEN = "MC0144"
_FORMAT = "session.save_model_format"
_DATA_FILE = "session.optimized_model_external_initializers_file_name"
_LEAST_BYTES = "session.optimized_model_external_initializers_min_size_in_bytes"


def write_optimised(source: str | bytes, asked: SessionOptions, options: Options) -> None:
    """Write an ONNX model where the path ends in .onnx or that format is asked for, else a program.

    UserError where the file can't be written. A model that can't be compiled for all sizes has no
    program; that is told at level warning.
    """
    path = Path(asked.optimized_model_filepath)
    if is_program(source):
        LOGGER.warning("%s is not written: the model is a compiled program already", path)
        return
    format = asked._entries.get(_FORMAT, "ONNX" if path.suffix.lower() == ".onnx" else "")
    if format.upper() == "ONNX":
        _write_onnx(source, path, asked)
        return
    try:
        program_files.write_model(reader.read_model(source), path, dict(options.sizes), options)
    except (UserError, UnsupportedError) as error:
        if error.code == _UNWRITTEN:
            raise
        LOGGER.warning("%s is not written: %s", path, error)


def _write_onnx(source: str | bytes, path: Path, asked: SessionOptions) -> None:
    import onnx
    from onnx import external_data_helper

    model = onnx.load_model_from_string(with_initialisers(source, {}))
    for type in _types(model.graph):
        _bind(type, asked._by_name, asked._by_denotation)
    name = asked._entries.get(_DATA_FILE, "")
    if name:
        least = int(asked._entries.get(_LEAST_BYTES, "1024"))
        external_data_helper.convert_model_to_external_data(
            model, location=name, size_threshold=least
        )
        write_beside(path.with_name(name), b"")  # tensors are appended to the file
        external_data_helper.write_external_data_tensors(model, str(path.parent))
    write_beside(path, model.SerializeToString())


def _types(graph: Any) -> Iterator[Any]:
    """The types of a graph's values that have shapes."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.HasField("tensor_type"):
            yield value.type.tensor_type


def _bind(type: Any, by_name: Mapping[str, int], by_denotation: Mapping[str, int]) -> None:
    """Write numbers for the free dimensions of a type that have a name or a meaning so bound."""
    for dim in type.shape.dim:
        size = by_name.get(dim.dim_param, by_denotation.get(dim.denotation))
        if size is not None and not dim.HasField("dim_value"):
            dim.dim_value = size
