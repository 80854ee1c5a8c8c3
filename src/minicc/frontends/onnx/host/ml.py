"""Operators of classical machine learning on the host: those of texts and of maps.

A map is a dict of Python, a sequence of maps a list of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.host.registry import host_operator
from minicc.frontends.onnx.host.text import each, texts
from minicc.frontends.onnx.ml.arithmetic import default_of, listed
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Array
from minicc.wording import counted

_DOMAIN = "ai.onnx.ml"
Map = dict[Any, Any]
_CASTS: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_STRING": object, "TO_INT64": np.int64}


@host_operator(f"{_DOMAIN}.LabelEncoder")
def label_encoder(node: Node, x: Array) -> Array:
    """What a table has for each key, else a default."""
    if "classes_strings" in node.attributes:
        keys = np.array(node.texts("classes_strings"), object)
        values, missing = np.arange(len(keys)), node.integer("default_int64", -1)
    else:
        keys, values = _side(node, "keys"), _side(node, "values")
        missing = default_of(node, values)
    table: Map = {}
    for k, v in zip(keys.tolist(), values.tolist(), strict=True):
        table.setdefault(_key(k), v)
    given = texts(x) if x.dtype.kind in "OUS" else x
    return each(lambda k: table.get(_key(k), missing), values.dtype, given)


def _key(value: Any) -> Any:
    """NaN is a key like others."""
    return "nan" if isinstance(value, float) and value != value else value


def _side(node: Node, side: str) -> Array:
    kinds: dict[str, Any] = {"strings": object, "int64s": np.int64, "floats": np.float32}
    for kind, element in kinds.items():
        given = node.attributes.get(f"{side}_{kind}")
        if given is not None:
            return np.array(given, element)
    return listed(node.attributes[f"{side}_tensor"], node.name)


@host_operator(f"{_DOMAIN}.CategoryMapper")
def category_mapper(node: Node, x: Array) -> Array:
    """The number of each text, or the text of each number; a default for others."""
    pairs = list(zip(node.texts("cats_strings"), node.integers("cats_int64s") or (),
                     strict=True))  # fmt: skip
    if x.dtype.kind in "OUS":
        numbers, unknown = dict(pairs), node.integer("default_int64", -1)
        return each(lambda k: numbers.get(k, unknown), np.int64, texts(x))
    names, missing = {n: t for t, n in pairs}, node.text("default_string", "_Unused")
    return each(lambda k: names.get(int(k), missing), object, x)


@host_operator(f"{_DOMAIN}.OneHotEncoder")
def one_hot_encoder(node: Node, x: Array) -> Array:
    """Which of the categories each text is, along a new axis."""
    categories = node.texts("cats_strings") or node.integers("cats_int64s") or ()
    given = texts(x) if x.dtype.kind in "OUS" else x.astype(np.int64)
    place = {name: k for k, name in enumerate(categories)}
    at = each(lambda k: place.get(k, len(place)), np.int64, given)
    if not node.integer("zeros", 1) and np.any(at == len(place)):
        raise ValueError("an element is none of its categories, and zeros is 0")
    return np.eye(len(place) + 1, len(categories), dtype=np.float32)[at]


@host_operator(f"{_DOMAIN}.ArrayFeatureExtractor")
def array_feature_extractor(node: Node, x: Array, indices: Array) -> Array:
    """Some columns."""
    out = np.take(x, np.asarray(indices).reshape(-1), axis=-1)
    return out[None] if x.ndim == 1 else out


@host_operator(f"{_DOMAIN}.ZipMap")
def zip_map(node: Node, x: Array) -> list[Map]:
    """For each row a map from labels, in their order, to its numbers; a vector is one row."""
    labels = node.texts("classlabels_strings") or node.integers("classlabels_int64s") or ()
    rows = x[None] if x.ndim == 1 else x
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        text = f"it has {counted(len(labels), 'label')}, and rows of an array of shape"
        raise ValueError(f"{text} {list(x.shape)}")
    return [dict(sorted(zip(labels, row, strict=True))) for row in rows.tolist()]


@host_operator(f"{_DOMAIN}.DictVectorizer")
def dict_vectorizer(node: Node, x: Map) -> Array:
    """The values of a map in the order of a vocabulary, as one row; 0 or "" for what it lacks."""
    words = node.texts("string_vocabulary") or node.integers("int64_vocabulary") or ()
    kinds = {np.asarray(v).dtype for v in x.values()}
    plain = all(kind.kind in "iuf" for kind in kinds)
    element: Any = np.result_type(*kinds) if kinds and plain else object if kinds else np.float32
    empty: Any = "" if element is object else 0
    return np.array([[x.get(word, empty) for word in words]], element)


@host_operator(f"{_DOMAIN}.CastMap")
def cast_map(node: Node, x: Map) -> Array:
    """The values of a map by rising keys, as one row.

    In a sparse one of `max_map` columns a value stands where its key says.
    """
    element = _CASTS[node.text("cast_to", "TO_FLOAT")]
    empty: Any = "" if element is object else 0
    pairs = sorted(x.items())
    if node.text("map_form", "DENSE") == "DENSE":
        row = [v for _, v in pairs]
    else:
        row = [empty] * node.integer("max_map", 1)
        for k, v in pairs:
            if 0 <= k < len(row):
                row[k] = v
    cast: Any = str if element is object else float
    return np.array([[cast(v) for v in row]], element)
