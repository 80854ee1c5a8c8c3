"""Models with other initialisers: those that options replace, and those that a run gives.

Mirrors: onnxruntime's add_initializer, and its initialisers that are inputs too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from minicc.ir.arrays import Array
from minicc.onnxruntime.errors import InvalidArgument, status

_MOST_BYTES = (1 << 31) - 1  # of a message of protobuf


def with_initialisers(
    source: str | bytes, put: Mapping[str, Array], drop: Collection[str] = ()
) -> bytes:
    """A model's bytes with arrays in the place of initialisers, and some of these left out.

    Those left out must be inputs of the graph. Data in files beside the model are put in. The
    source has been read before. InvalidArgument for a name that no initialiser has, and for a model
    of more than 2 GiB.
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
    unknown = sorted({*put, *drop} - known)
    if unknown:
        raise status(InvalidArgument, f"no initialiser is called {', '.join(unknown)}")
    kept = [
        numpy_helper.from_array(put[t.name], t.name) if t.name in put else t
        for t in tensors
        if t.name not in drop
    ]
    del tensors[:]
    tensors.extend(kept)
    if not isinstance(source, bytes):
        external_data_helper.load_external_data_for_model(model, os.path.dirname(source))
    if model.ByteSize() > _MOST_BYTES:
        raise status(InvalidArgument, "a model of more than 2 GiB can't have other initialisers")
    return bytes(model.SerializeToString())
