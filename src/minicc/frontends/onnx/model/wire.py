"""A glance at protobuf's wire format: models without their weights, and models cut short.

Protobuf copies all that it reads, and again what is taken out of a message. Weights are most of a
model, so they are cut out before it sees them, and stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

# Fields of ModelProto that are numbers, and those with a length in front.
_NUMBERS = frozenset({1, 5})
_LENGTHS = {
    2: "producer_name",
    3: "producer_version",
    4: "domain",
    6: "doc_string",
    7: "graph",
    8: "opset_import",
    14: "metadata_props",
    20: "training_info",
    25: "functions",
    26: "configuration",
}


# ModelProto.graph, GraphProto.initializer and TensorProto.raw_data
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_NO_DATA = bytes([_RAW_DATA << 3 | 2, 0])


class _Field(NamedTuple):
    """A field with a length in front: where its tag starts, its contents start, and it ends."""

    number: int
    start: int
    body: int
    end: int


def without_weights(
    data: memoryview, least: int
) -> tuple[bytes | memoryview, dict[int, tuple[int, int]]]:
    """A model without raw data of `least` bytes or more, and where those lie.

    The places, start and end, are those of initialisers by their position; each of them keeps an
    empty `raw_data`. Bytes that are not as any writer makes them come back as they are.
    """
    places: dict[int, tuple[int, int]] = {}
    try:
        graphs = [f for f in _fields(data, 0, len(data)) if f.number == _GRAPH]
        if len(graphs) != 1:
            return data, {}
        graph = graphs[0]
        kept: list[bytes | memoryview] = []
        done = graph.body
        tensors = (f for f in _fields(data, graph.body, graph.end) if f.number == _INITIALIZER)
        for position, tensor in enumerate(tensors):
            if tensor.end - tensor.body < least:
                continue
            raw = [f for f in _fields(data, tensor.body, tensor.end) if f.number == _RAW_DATA]
            if len(raw) == 1 and raw[0].end - raw[0].body >= least:
                places[position] = raw[0].body, raw[0].end
                rest = [data[tensor.body : raw[0].start], data[raw[0].end : tensor.end]]
                length = sum(map(len, rest)) + len(_NO_DATA)
                head = _head(_INITIALIZER, length)
                kept += [data[done : tensor.start], head, rest[0], _NO_DATA, rest[1]]
                done = tensor.end
    except (IndexError, ValueError):
        return data, {}
    kept.append(data[done : graph.end])
    head = _head(_GRAPH, sum(map(len, kept)))
    return b"".join([data[: graph.start], head, *kept, data[graph.end :]]), places


def _fields(data: memoryview, at: int, end: int) -> Iterator[_Field]:
    """The fields of a message that have a length; the others are passed over.

    IndexError or ValueError where a field is none that a writer makes, or leads over the end.
    """
    while at < end:
        start = at
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            _, after = _varint(data, at)
        elif wire == 2:
            length, at = _varint(data, at)
            after = at + length
        else:
            after = at + {1: 8, 5: 4}.get(wire, end)
        if after > end:
            raise ValueError("a field is longer than its message")
        if wire == 2:
            yield _Field(tag >> 3, start, at, after)
        at = after


def _head(number: int, length: int) -> bytes:
    """What stands before the contents of a field that has a length."""
    out = bytearray([number << 3 | 2])
    while length >= 0x80:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*out, length])


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A number and the place after it; IndexError at the end of the bytes."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("no number is that long")


def cut_short(data: bytes | memoryview) -> str:
    """How many bytes of which field are missing at the end of a model.

    Empty where the bytes do not begin like a model, or where no end is missing.
    """
    # writers put ir_version, field 1, in front
    if data[:1] != b"\x08":
        return ""
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            field, wire = tag >> 3, tag & 7
            if wire == 0 and field in _NUMBERS:
                _, at = _varint(data, at)
            elif wire == 2 and field in _LENGTHS:
                length, at = _varint(data, at)
                at += length
                if at > len(data):
                    return f"{at - len(data)} bytes of `{_LENGTHS[field]}`"
            else:
                return ""
    except IndexError:
        return "part of a number"
    except ValueError:
        pass
    return ""
