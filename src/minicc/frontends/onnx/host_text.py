"""Operators on strings, which are NumPy arrays of objects on the host.

Mirrors: ONNX's String*, RegexFullMatch, TfIdfVectorizer and LabelEncoder.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.onnx.host import host_operator
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.tensors import array_of
from minicc.ir.core import Array


def _texts(x: Any) -> Array:
    """An array of Python strings."""
    given = np.asarray(x, object)
    out = np.empty(given.shape, object)
    for place in np.ndindex(*given.shape):
        value = given[place]
        out[place] = value.decode("utf-8") if isinstance(value, bytes) else str(value)
    return out


def _each(function: Callable[..., Any], element: Any, *arrays: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays)).astype(element)


@host_operator("StringConcat")
def string_concat(node: Node, a: Array, b: Array) -> Array:
    """One behind the other, which broadcast."""
    return _each(lambda p, q: p + q, object, _texts(a), _texts(b))


@host_operator("Equal")
def equal(node: Node, a: Array, b: Array) -> Array:
    """Whether strings are equal; numbers may come here too."""
    if a.dtype.kind not in "OUS":
        return np.asarray(a == b)
    return _each(lambda p, q: p == q, bool, _texts(a), _texts(b))


@host_operator("RegexFullMatch")
def regex_full_match(node: Node, x: Array) -> Array:
    """Whether all of a string matches a pattern, in time that grows with the text alone."""
    import re2

    text = node.text("pattern", "")
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        shown = reason.decode(errors="replace")
        raise ValueError(f"the regular expression {text!r} is none: {shown}") from error
    return _each(lambda one: pattern.fullmatch(one) is not None, bool, _texts(x))


@host_operator("StringSplit")
def string_split(node: Node, x: Array) -> tuple[Array, Array]:
    """The parts of each string along a new axis, filled up with "", and how many there are."""
    delimiter = node.text("delimiter", "") or None
    most = node.integer("maxsplit", -1)
    texts = _texts(x)
    parts = [text.split(delimiter, most) for text in texts.reshape(-1)]
    counts = np.array([len(p) for p in parts], np.int64)
    width = int(counts.max(initial=0))
    out = np.full((len(parts), width), "", object)
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out.reshape((*texts.shape, width)), counts.reshape(texts.shape)


@host_operator("StringNormalizer")
def string_normalizer(node: Node, x: Array) -> Array:
    """In upper or lower case, without accents, and without stop words."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(
        node.text("case_change_action", "NONE"), str
    )
    words = tuple(node.attributes.get("stopwords", ()))
    exact = bool(node.integer("is_case_sensitive", 0))
    stops = set(words) if exact else {change(w) for w in words}

    def normal(text: str) -> str:
        plain = _without_accents(text)
        if exact:
            return change(_without(plain, stops))
        return _without(change(plain), stops)

    out = _each(normal, object, _texts(x))
    flat = [text for text in out.reshape(-1) if text]
    if out.ndim == 1 or out.shape[0] == 1:
        kept = np.array(flat or [""], object)
        return kept if out.ndim == 1 else kept[None]
    return out


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text)
    return "".join(c for c in apart if not unicodedata.combining(c))


def _without(text: str, stops: set[str]) -> str:
    return " ".join(word for word in text.split(" ") if word not in stops) if stops else text


@host_operator("TfIdfVectorizer")
def tf_idf_vectorizer(node: Node, x: Array) -> Array:
    """How often each n-gram of a pool stands in a row, perhaps weighted."""
    pool = node.attributes.get("pool_int64s") or node.attributes.get("pool_strings") or ()
    starts = [*(node.integers("ngram_counts") or ()), len(pool)]
    columns = node.integers("ngram_indexes") or ()
    grams: dict[tuple[Any, ...], int] = {}
    for size, (first, last) in enumerate(itertools.pairwise(starts), start=1):
        for at in range(first, last, size):
            grams[tuple(pool[at : at + size])] = len(grams)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    rows = _texts(rows) if rows.dtype.kind in "OUS" else rows
    counts = np.zeros((len(rows), max(columns, default=-1) + 1), np.float32)
    weights = np.zeros(counts.shape[1], np.float32)
    given = node.attributes.get("weights") or (1.0,) * len(columns)
    for column, weight in zip(columns, given, strict=False):
        weights[column] = weight
    least, most = node.integer("min_gram_length", 1), node.integer("max_gram_length", 1)
    for row, out in zip(rows.tolist(), counts, strict=True):
        for size in range(least, most + 1):
            for step in range(1, node.integer("max_skip_count", 0) + 2 if size > 1 else 2):
                for at in range(len(row) - (size - 1) * step):
                    gram = tuple(row[at : at + (size - 1) * step + 1 : step])
                    if gram in grams:
                        out[columns[grams[gram]]] += 1
    mode = node.text("mode", "TF")
    if mode == "IDF":
        counts = (counts > 0) * weights
    elif mode == "TFIDF":
        counts = counts * weights
    return counts.astype(np.float32).reshape((*x.shape[:-1], counts.shape[1]))


@host_operator("ai.onnx.ml.LabelEncoder")
def label_encoder(node: Node, x: Array) -> Array:
    """What a table has for each key, else a default."""
    keys, values = _side(node, "keys"), _side(node, "values")
    name = next(
        n for n in ("strings", "int64s", "floats", "tensor") if f"values_{n}" in node.attributes
    )
    element: Any = {"strings": object, "int64s": np.int64, "floats": np.float32}.get(name)
    missing: Any = {"strings": "_Unused", "int64s": -1, "floats": -0.0}.get(name)
    if name == "tensor":
        element = object if values.dtype.kind in "OUS" else values.dtype
        missing = "_Unused" if element is object else -1
    given = node.attributes.get(f"default_{name.removesuffix('s')}")
    if given is not None:
        missing = given if name != "tensor" else _listed(given, node.name)[0]
    texts = x.dtype.kind in "OUS"
    table = {_key(k): v for k, v in zip(keys.tolist(), values.tolist(), strict=True)}
    return _each(lambda k: table.get(_key(k), missing), element, _texts(x) if texts else x)


def _key(value: Any) -> Any:
    """NaN is a key like others."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return "nan" if isinstance(value, float) and value != value else value


def _side(node: Node, side: str) -> Array:
    for kind in ("strings", "int64s", "floats"):
        given = node.attributes.get(f"{side}_{kind}")
        if given is not None:
            return np.array(given, object if kind == "strings" else None)
    return _listed(node.attributes[f"{side}_tensor"], node.name)


def _listed(tensor: Any, where: str) -> Array:
    """The elements of a tensor attribute, strings among them."""
    if tensor.data_type == 8:
        return np.array([s.decode("utf-8") for s in tensor.string_data], object)
    return np.asarray(array_of(tensor, where)).reshape(-1)
