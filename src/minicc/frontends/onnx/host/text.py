"""Operators on strings, which are NumPy arrays of objects on the host."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minicc.frontends.onnx.host.registry import gives_texts, host_operator
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.ir.core import Array
from minicc.ir.types import DType, TensorType, from_numpy

_LARGEST_POOL = 4096  # elements of n-grams that are compared with each of a row
_MOST_STEPS = 64  # sizes and distances


def texts(x: Any) -> Array:
    """An array of Python strings."""
    given = np.asarray(x, object)
    out = np.empty(given.shape, object)
    for place in np.ndindex(*given.shape):
        value = given[place]
        out[place] = value.decode("utf-8") if isinstance(value, bytes) else str(value)
    return out


def each(function: Callable[..., Any], element: Any, *arrays: Array) -> Array:
    """What a function gives of each element, as an array of this element type."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays)).astype(element)


@host_operator("StringConcat")
def string_concat(node: Node, a: Array, b: Array) -> Array:
    """One after the other, which broadcast."""
    return each(lambda p, q: p + q, object, texts(a), texts(b))


@host_operator("Equal")
def equal(node: Node, a: Array, b: Array) -> Array:
    """Whether strings are equal; numbers may come here too."""
    if a.dtype.kind not in "OUS":
        return np.asarray(a == b)
    return each(lambda p, q: p == q, bool, texts(a), texts(b))


@host_operator("Cast")
def cast(node: Node, x: Array) -> Array:
    """Texts as numbers, or numbers as texts; the to of an old opset is a word."""
    to = node.attributes.get("to")
    if gives_texts(node):
        return each(_spelled, object, x)
    if isinstance(to, str):
        from onnx import TensorProto

        to = dict(TensorProto.DataType.items()).get(to, 0)
    return _read(x, element_type(int(to or 0), "the result of Cast", node.name))


@host_operator("CastLike")
def cast_like(node: Node, x: Array, like: Array) -> Array:
    """As texts or as numbers, as another tensor is."""
    if like.dtype.kind in "OUS":
        return each(_spelled, object, x)
    element = from_numpy(like.dtype)
    assert element is not None
    return _read(x, element)


def _spelled(value: Any) -> str:
    """A number as ONNX Runtime writes it: floats with 8 digits; INF an infinity, NaN no number."""
    if isinstance(value, str | bytes):
        return value.decode("utf-8") if isinstance(value, bytes) else value
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return str(int(value))
    number = float(value)
    if number != number:
        return "NaN"
    if abs(number) == np.inf:
        return "INF" if number > 0 else "-INF"
    return f"{number:.8g}"


def _read(x: Array, element: DType) -> Array:
    """The numbers that texts say; ValueError where one says none."""
    if element.is_float:
        return each(float, np.float64, texts(x)).astype(element.numpy)
    return each(_whole, object, texts(x)).astype(element.numpy)


def _whole(text: str) -> int:
    """The integer of a text; of a text with a fraction what stands before that."""
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def compiled_pattern(text: str) -> Any:
    """A regular expression of RE2, whose time grows with the text alone; ValueError for none."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        shown = reason.decode(errors="replace")
        raise ValueError(f"the regular expression {text!r} is none: {shown}") from error


@host_operator("RegexFullMatch")
def regex_full_match(node: Node, x: Array) -> Array:
    """Whether all of a string matches a pattern, in time that grows with the text alone."""
    pattern = compiled_pattern(node.text("pattern", ""))
    return each(lambda one: pattern.fullmatch(one) is not None, bool, texts(x))


@host_operator("StringSplit")
def string_split(node: Node, x: Array) -> tuple[Array, Array]:
    """The parts of each string along a new axis, filled up with "", and how many there are."""
    delimiter = node.text("delimiter", "") or None
    most = node.integer("maxsplit", -1)
    given = texts(x)
    parts = [text.split(delimiter, most) for text in given.reshape(-1)]
    counts = np.array([len(p) for p in parts], np.int64)
    width = int(counts.max(initial=0))
    out = np.full((len(parts), width), "", object)
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out.reshape((*given.shape, width)), counts.reshape(given.shape)


@host_operator("StringNormalizer")
def string_normalizer(node: Node, x: Array) -> Array:
    """In upper or lower case, and without the elements that are stop words.

    The specification says neither which letters a case has nor how words are compared that have
    both: as in ONNX Runtime each character changes into one, and cases that are not told apart are
    compared as the result has them, or as lower ones.
    """
    if x.ndim not in (1, 2):
        raise ValueError(f"its input has the shape {list(x.shape)}, and must have [C] or [1, C]")
    action, cases = node.text("case_change_action", "NONE"), _cases(node.text("locale", ""))
    change = cases.get(action, str)
    compared: Callable[[str], str] = str
    if not node.integer("is_case_sensitive", 0):
        compared = cases.get(action, cases["LOWER"])
    stops = {compared(word) for word in node.texts("stopwords")}
    given = texts(x)
    dropped = each(lambda text: compared(text) in stops, bool, given)
    out = each(change, object, given)
    if x.ndim == 2 and x.shape[0] != 1:
        out[dropped] = ""
        return out
    kept = out[~dropped] if not dropped.all() else np.array([""], object)
    return kept if x.ndim == 1 else kept[None]


def _cases(locale: str) -> dict[str, Callable[[str], str]]:
    """How texts change in a locale: that of C knows the letters of ASCII alone."""
    if locale in ("C", "POSIX"):
        return {"LOWER": _changed(str.lower, str), "UPPER": _changed(str.upper, str)}
    return {"LOWER": _changed(str.lower, _lower), "UPPER": _changed(str.upper, _upper)}


def _changed(ascii: Callable[[str], str], others: Callable[[str], str]) -> Callable[[str], str]:
    """A change of letters of ASCII and of other characters, each of which stays one."""

    def change(text: str) -> str:
        if text.isascii():
            return ascii(text)
        return "".join([ascii(c) if c.isascii() else others(c) for c in text])

    return change


def _lower(character: str) -> str:
    """The lower case of a character; of what would be a letter with a mark, that letter."""
    return character.lower()[0]


def _upper(character: str) -> str:
    """The upper case of a character, or its title case, where that is one character too."""
    forms = (character.upper(), character.title())
    return next((form for form in forms if len(form) == 1), character)


def columns_of_grams(node: Node) -> dict[tuple[Any, ...], int]:
    """The column in which each n-gram of a TfIdfVectorizer's pool is counted."""
    pool: tuple[Any, ...] = node.integers("pool_int64s") or node.texts("pool_strings")
    starts = [*(node.integers("ngram_counts") or ()), len(pool)]
    if starts != sorted(starts) or starts[0] < 0:
        raise ValueError(f"its ngram_counts {starts[:-1]} do not rise from 0 to {len(pool)}")
    columns = node.integers("ngram_indexes") or ()
    grams: dict[tuple[Any, ...], int] = {}
    for size, (first, last) in enumerate(itertools.pairwise(starts), start=1):
        for at in range(first, last, size):
            grams[tuple(pool[at : at + size])] = len(grams)
    return {gram: columns[k] for gram, k in grams.items()}


def steps_of_grams(node: Node, length: int = sys.maxsize) -> Iterator[tuple[int, int]]:
    """The sizes of n-grams that are looked for, each with each distance between its elements.

    Only those that fit into a row of a length, and of which the pool may have some. ValueError
    where elements would stand before the one before them.
    """
    least, most = node.integer("min_gram_length", 1), node.integer("max_gram_length", 1)
    skipped = node.integer("max_skip_count", 0)
    if skipped < 0:
        raise ValueError(f"its max_skip_count is {skipped}, which is less than 0")
    farthest = skipped + 1
    longest = min(most, length, len(node.integers("ngram_counts") or ()))
    for size in range(max(1, least), longest + 1):
        steps = min(farthest, (length - 1) // (size - 1)) if size > 1 else 1
        for step in range(1, steps + 1):
            yield size, step


def weights_of_grams(node: Node) -> Array:
    """The weight of each column of a TfIdfVectorizer, as float32."""
    columns = node.integers("ngram_indexes") or ()
    weights = np.zeros(max(columns, default=-1) + 1, np.float32)
    given = node.numbers("weights") or (1.0,) * len(columns)
    for column, weight in zip(columns, given, strict=False):
        weights[column] = weight
    return weights


def _finds_by_table(node: Node, types: Sequence[TensorType]) -> bool:
    """Whether looking n-grams up is quicker than comparing with all of them, or they are texts."""
    pool = node.integers("pool_int64s") or ()
    columns = node.integers("ngram_indexes") or ()
    few = 0 < len(pool) <= _LARGEST_POOL and len(set(columns)) == len(columns)
    ways = sum(1 for _ in itertools.islice(steps_of_grams(node), _MOST_STEPS + 1))
    return not few or ways > _MOST_STEPS or types[0].rank > 2


@host_operator("TfIdfVectorizer", _finds_by_table)
def tf_idf_vectorizer(node: Node, x: Array) -> Array:
    """How often each n-gram of a pool stands in a row, perhaps weighted."""
    columns, weights = columns_of_grams(node), weights_of_grams(node)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    rows = texts(rows) if rows.dtype.kind in "OUS" else rows
    counts = np.zeros((len(rows), len(weights)), np.float32)
    for row, out in zip(rows.tolist(), counts, strict=True):
        for size, step in steps_of_grams(node, len(row)):
            for at in range(len(row) - (size - 1) * step):
                gram = tuple(row[at : at + (size - 1) * step + 1 : step])
                if gram in columns:
                    out[columns[gram]] += 1
    mode = node.text("mode", "TF")
    if mode == "IDF":
        counts = np.asarray((counts > 0) * weights)
    elif mode == "TFIDF":
        counts = counts * weights
    return counts.astype(np.float32).reshape((*x.shape[:-1], counts.shape[1]))
