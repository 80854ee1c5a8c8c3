"""Models with other initialisers: those that options replace, and those that a run gives."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from minicc.ir.arrays import Array
from minicc.onnxruntime.errors import InvalidArgument, status

_NO_FILES: Mapping[str, bytes] = {}
_MOST_BYTES = (1 << 31) - 1  # of a message of protobuf


def with_initialisers(
    source: str | bytes,
    put: Mapping[str, Array],
    drop: Collection[str] = (),
    files: Mapping[str, bytes] = _NO_FILES,
    folder: str | None = None,
) -> bytes:
    """A model's bytes with arrays in the place of initialisers, and some of these left out.

    Those left out must be inputs of the graph; arrays of which no initialiser has the name change
    nothing, as in ONNX Runtime. Data in other files are put in: from `files`, by
    name, and from the folder, by default the model's own. The source has been read before.
    InvalidArgument for a name that no initialiser has, for a file that can't be read, and for a
    model of more than 2 GiB.
    """
    import onnx
    from onnx import external_data_helper, numpy_helper

    model = (
        onnx.load_model_from_string(source)
        if isinstance(source, bytes)
        else onnx.load(source, load_external_data=False)
    )
    tensors = model.graph.initializer
    known = {tensor.name for tensor in tensors}
    unknown = sorted({*drop} - known)
    if unknown:
        raise status(InvalidArgument, f"no initialiser is called {', '.join(unknown)}")
    kept = [
        numpy_helper.from_array(put[t.name], t.name) if t.name in put else t
        for t in tensors
        if t.name not in drop
    ]
    for tensor in kept:
        place = {entry.key: entry.value for entry in tensor.external_data}
        if external_data_helper.uses_external_data(tensor) and place.get("location") in files:
            start = int(place.get("offset", 0))
            data = files[place["location"]][start:]
            tensor.raw_data = data[: int(place["length"])] if "length" in place else data
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    del tensors[:]
    tensors.extend(kept)
    if folder is None and isinstance(source, str):
        folder = os.path.dirname(source)
    if folder is not None:
        try:
            external_data_helper.load_external_data_for_model(model, folder)
        except (OSError, onnx.checker.ValidationError) as error:
            text = f"the initialisers' files in {folder} can't be read: {error}"
            raise status(InvalidArgument, text) from error
    if model.ByteSize() > _MOST_BYTES:
        raise status(InvalidArgument, "a model of more than 2 GiB can't have other initialisers")
    return bytes(model.SerializeToString())
