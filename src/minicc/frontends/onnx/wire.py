"""A glance at protobuf's wire format, to tell a model that was cut short from other bytes."""

from __future__ import annotations

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


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and the place behind it; IndexError at the end of the bytes."""
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


def cut_short(data: bytes) -> str:
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
