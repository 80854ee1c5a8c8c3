"""`ModelCompiler`: a model compiled ahead, to a file or to bytes that a session opens."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minicc.errors import MiniccError
from minicc.later import Later
from minicc.onnxruntime.enums import GraphOptimizationLevel, OrtCompileApiFlags
from minicc.onnxruntime.errors import Fail, status
from minicc.onnxruntime.log import tell_once
from minicc.onnxruntime.opening import options_for, refused, require_source
from minicc.onnxruntime.providers import choose
from minicc.onnxruntime.settings import SessionOptions
from minicc.runtime.programs import SUFFIX

if TYPE_CHECKING:
    from minicc.api import program_files
    from minicc.frontends.onnx.model import reader
else:
    program_files, reader = (
        Later("minicc.api.program_files"),
        Later("minicc.frontends.onnx.model.reader"),
    )


class ModelCompiler:
    """Compiles one model, with the options of a session; what it writes is a compiled program.

    Where initialisers lie, and how much of the graph is rewritten, is minicc's own: these arguments
    are accepted.
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Callable[..., Any] | None = None,
    ) -> None:
        self._source = require_source(input_model_path_or_bytes)
        self._options = sess_options._copy()
        self._flags = flags
        if external_initializers_file_path is not None or get_initializer_location_func is not None:
            tell_once("a place for a compiled model's initialisers")

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Write the compiled program; without a path beside the model, under its name and .mcp.

        Fail where the file is there and the flags forbid that, or there is no path;
        ONNX Runtime's exceptions as of a session where the model can't be compiled.
        """
        if output_model_path is None:
            if isinstance(self._source, bytes):
                raise status(Fail, "a model that is given as bytes needs a path for its program")
            output_model_path = os.path.splitext(self._source)[0] + SUFFIX
        path = Path(output_model_path)
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and path.exists():
            raise status(Fail, f"{path} is there already")
        try:
            options = options_for(self._options, choose(None, None), self._source)
            read = reader.read_model(self._source)
            program_files.write_model(read, path, dict(options.sizes), options)
        except MiniccError as error:
            raise refused(error, self._source) from error

    def compile_to_bytes(self) -> bytes:
        """The compiled program, which `InferenceSession` takes as bytes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"program{SUFFIX}"
            self.compile_to_file(str(path))
            return path.read_bytes()

    def compile_to_stream(self, write_function: Callable[[bytes], None]) -> None:
        """Hand the compiled program to a function."""
        write_function(self.compile_to_bytes())
