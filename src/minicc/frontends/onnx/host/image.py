"""Pictures on the host: a stream of bytes in a file format becomes rows of pixels.

The formats are decoded by Pillow, whose JPEG decoder interpolates chroma as the operator wants it.
"""

from __future__ import annotations

import io
import struct

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.host.registry import host_operator
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Array

_FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@host_operator("ImageDecoder")
def image_decoder(node: Node, encoded: Array) -> Array:
    """Pixels of shape [height, width, channels]; an empty array of what can't be decoded.

    MC0157 where Pillow is not installed, MC0158 of a picture with more pixels than Pillow's limit.
    """
    try:
        from PIL import Image
    except ImportError:
        text = "ImageDecoder needs Pillow, which is not installed here"
        raise UserError("MC0157", text, hint="pip install pillow", where=node.name) from None
    wanted = node.text("pixel_format", "RGB")
    if wanted not in _MODES:
        raise ValueError(f"pixel_format is {wanted!r}, not one of {', '.join(_MODES)}")
    mode = _MODES[wanted]
    try:
        with Image.open(io.BytesIO(encoded.tobytes()), formats=_FORMATS) as picture:
            pixels = np.array(picture.convert(mode))
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    except (OSError, SyntaxError, EOFError, ValueError, struct.error):
        return np.zeros((0, 0, len(mode)), np.uint8)
    pixels = pixels.reshape(*pixels.shape[:2], len(mode))
    return pixels[..., ::-1].copy() if wanted == "BGR" else pixels
