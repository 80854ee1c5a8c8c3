"""Models that tf2onnx makes of functions and files of TensorFlow, and of layers of Keras."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.exporters.exported import agree, check

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf: Any = pytest.importorskip("tensorflow")
tf2onnx: Any = pytest.importorskip("tf2onnx")
pytestmark = pytest.mark.filterwarnings("ignore")
logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)

Array = np.ndarray[Any, Any]
layers = tf.keras.layers
RNG = np.random.default_rng(3)


class Kind(NamedTuple):
    """What makes a function of tensors, what it takes, and inputs for some sizes."""

    made: Callable[[], Callable[..., Any]]
    takes: Sequence[tuple[Sequence[int | None], str]]
    inputs: Callable[..., Sequence[Array]]
    sizes: Sequence[tuple[int, ...]]


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def numbers(high: int, *shape: int) -> Array:
    return RNG.integers(0, high, shape).astype(np.int32)


def of_layers(shape: Sequence[int | None], *parts: Any, dtype: str = "float32") -> Any:
    """A model of layers one after the other."""
    x = tf.keras.Input(shape, dtype=dtype)
    y = x
    for part in parts:
        y = part(y)
    return tf.keras.Model(x, y)


def u_net() -> Any:
    """Down and up again, with what was there on the way down beside it."""
    x = tf.keras.Input((None, None, 3))
    wide = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    deep = layers.SeparableConv2D(8, 3, padding="same")(layers.MaxPooling2D()(wide))
    up = layers.Conv2DTranspose(4, 2, strides=2, padding="same")(deep)
    y = layers.BatchNormalization()(layers.Concatenate()([up, wide]))
    return tf.keras.Model(x, [layers.Conv2D(2, 1, activation="softmax")(y), deep])


def recurrent() -> Any:
    """Both ways over words, of which 0 is none."""
    both = layers.Bidirectional(layers.LSTM(5, return_sequences=True))
    parts = layers.Embedding(9, 4, mask_zero=True), both, layers.GRU(3, return_sequences=True)
    return of_layers((None,), *parts, dtype="int32")


def decoder() -> Any:
    """A block that sees what came before, and what an encoder gave."""
    x, memory = tf.keras.Input((None, 8)), tf.keras.Input((None, 8))
    y = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    y = layers.LayerNormalization()(x + y)
    return tf.keras.Model([x, memory], y + layers.MultiHeadAttention(2, 4)(y, memory))


def waves() -> Any:
    """Causal convolutions whose taps lie ever further apart."""
    gates = [layers.Conv1D(4, 2, padding="causal", dilation_rate=n) for n in (1, 2, 4)]
    return of_layers((None, 2), *gates, layers.LayerNormalization(), layers.UpSampling1D(2))


def columns() -> Callable[..., Any]:
    """A sum over columns, of which the condition asks how many there are."""

    def run(x: Any) -> Any:
        def each(i: Any, total: Any) -> Any:
            return i + 1, total * 0.5 + x[:, i]

        first = tf.constant(0), tf.zeros_like(x[:, 0])
        return tf.while_loop(lambda i, _: i < tf.shape(x)[1], each, first)[1]

    return run


def triangle() -> Callable[..., Any]:
    """A loop of as many rounds as the one around it has had, with a branch."""

    def row(x: Any, i: Any, total: Any) -> Any:
        def each(j: Any, y: Any) -> Any:
            return j + 1, y + tf.cond(tf.equal(j % 2, 0), lambda: x[j], lambda: -x[i])

        return tf.while_loop(lambda j, _: j < i + 1, each, (tf.constant(0), total))[1]

    def run(x: Any) -> Any:
        first = tf.constant(0), tf.zeros_like(x)
        size = tf.shape(x)[0]
        return tf.while_loop(lambda i, _: i < size, lambda i, y: (i + 1, row(x, i, y)), first)[1]

    return run


def written() -> Callable[..., Any]:
    """Words until all rows have ended, each from the one before."""
    weights, words = normal(8, 8), normal(8, 8)

    def each(i: Any, h: Any, word: Any, text: Any) -> Any:
        h = tf.tanh(h @ tf.constant(weights) + tf.gather(tf.constant(words), word))
        word = tf.argmax(h @ tf.constant(words), -1, output_type=tf.int32)
        return i + 1, h, word, tf.concat([text, word[:, None]], 1)

    def goes_on(i: Any, h: Any, word: Any, text: Any) -> Any:
        return tf.logical_and(i < 9, tf.reduce_any(tf.not_equal(word, 3)))

    def run(h: Any) -> Any:
        word = tf.zeros([tf.shape(h)[0]], tf.int32)
        shapes = tuple(map(tf.TensorShape, ((), (None, 8), (None,), (None, None))))
        first = tf.constant(0), h, word, word[:, None]
        return tf.while_loop(goes_on, each, first, shape_invariants=shapes)[1:]

    return run


def sliced() -> Callable[..., Any]:
    def run(x: Any) -> Any:
        parts = x[::-1], x[:, ::2], x[-1:, ..., 0], x[..., 1:, None], x[:, -1]
        return *parts, tf.reverse(x, [1]), tf.roll(x, 1, 1), tf.cumsum(x, 1, exclusive=True)

    return run


def boxes() -> Callable[..., Any]:
    def run(corners: Any, score: Any) -> Any:
        kept = tf.image.non_max_suppression(corners, score, 5, 0.4, 0.1)
        return tf.gather(corners, kept), tf.gather(score, kept), kept

    return run


def corners(n: int) -> Array:
    return np.sort(RNG.random((n, 2, 2)).astype(np.float32), 1).reshape(n, 4)


def resized() -> Callable[..., Any]:
    def run(x: Any, part: Any) -> Any:
        size = tf.shape(x)[1:3] * 2
        cut = tf.image.crop_and_resize(x, part, tf.zeros_like(part[:, 0], tf.int32), [3, 4])
        return tf.image.resize(x, size), tf.image.resize(x, [5, 7], "nearest"), cut

    return run


def chosen() -> Callable[..., Any]:
    def run(x: Any, k: Any) -> Any:
        best, places = tf.math.top_k(x, k)
        rows = tf.boolean_mask(x, x[:, 0] > 0)
        return best, places, tf.where(x > 0.3), rows, tf.argsort(x, direction="DESCENDING")

    return run


def gathered() -> Callable[..., Any]:
    def run(x: Any, at: Any) -> Any:
        sums = tf.math.unsorted_segment_sum(x, at, 4)
        spread = tf.tensor_scatter_nd_add(sums, at[:, None], x)
        return sums, spread, tf.gather_nd(x, at[:, None] * 0), tf.one_hot(at, 4), tf.unique(at)[0]

    return run


FREE = (None, None)
KINDS = {
    "u-net": Kind(
        u_net,
        [((*FREE, None, 3), "float32")],
        lambda b, h, w: [normal(b, h, w, 3)],
        [(2, 8, 6), (1, 16, 4), (3, 2, 2)],
    ),
    "recurrent": Kind(
        recurrent, [(FREE, "int32")], lambda b, t: [numbers(9, b, t)], [(2, 5), (1, 1), (3, 8)]
    ),
    "decoder": Kind(
        decoder,
        [((*FREE, 8), "float32")] * 2,
        lambda b, t, u: [normal(b, t, 8), normal(b, u, 8)],
        [(2, 5, 3), (1, 1, 7), (3, 33, 1)],
    ),
    "waves": Kind(
        waves, [((*FREE, 2), "float32")], lambda b, t: [normal(b, t, 2)], [(2, 9), (1, 1), (3, 40)]
    ),
    "columns": Kind(
        columns, [(FREE, "float32")], lambda n, m: [normal(n, m)], [(2, 7), (1, 1), (5, 33), (0, 3)]
    ),
    "triangle": Kind(
        triangle, [(FREE, "float32")], lambda n, m: [normal(n, m)], [(4, 3), (1, 1), (9, 2)]
    ),
    "written": Kind(
        written, [((None, 8), "float32")], lambda n: [normal(n, 8)], [(2,), (1,), (5,)]
    ),
    "sliced": Kind(
        sliced, [(FREE, "float32")], lambda n, m: [normal(n, m)], [(4, 5), (1, 1), (3, 20)]
    ),
    "boxes": Kind(
        boxes,
        [((None, 4), "float32"), ((None,), "float32")],
        lambda n: [corners(n), np.asarray(RNG.random(n), np.float32)],
        [(10,), (1,), (30,)],
    ),
    "resized": Kind(
        resized,
        [((*FREE, None, 2), "float32"), ((None, 4), "float32")],
        lambda b, h, w, n: [normal(b, h, w, 2), corners(n)],
        [(2, 4, 6, 3), (1, 5, 3, 1)],
    ),
    "chosen": Kind(
        chosen,
        [(FREE, "float32"), ((), "int32")],
        lambda n, m, k: [normal(n, m), np.array(k, np.int32)],
        [(4, 6, 2), (1, 1, 1), (9, 20, 5)],
    ),
    "gathered": Kind(
        gathered,
        [((None, 3), "float32"), ((None,), "int32")],
        lambda n: [normal(n, 3), numbers(4, n)],
        [(6,), (1,), (40,)],
    ),
}


@pytest.mark.parametrize(("name", "opset"), [*zip(KINDS, [13, 18] * 6, strict=True)])
def test_functions_at_several_sizes(name: str, opset: int) -> None:
    tf.keras.utils.set_random_seed(3)
    kind = KINDS[name]
    takes = [tf.TensorSpec(s, kind, name=f"x{k}") for k, (s, kind) in enumerate(kind.takes)]
    made = kind.made()
    model = isinstance(made, tf.keras.Model)
    run = tf.function(lambda *xs: made([*xs] if len(xs) > 1 else xs[0]) if model else made(*xs))
    proto, _ = tf2onnx.convert.from_function(run, input_signature=takes, opset=opset)
    feeds = [kind.inputs(*sizes) for sizes in kind.sizes]
    named = [{f"x{k}": v for k, v in enumerate(feed)} for feed in feeds]
    for feed, outputs in zip(feeds, check(proto.SerializeToString(), named), strict=True):
        wanted = [np.asarray(v) for v in tf.nest.flatten(run(*map(tf.constant, feed)))]
        agree(outputs, wanted, 1e-4)


def test_a_model_that_keras_exports_itself(tmp_path: Path) -> None:
    tf.keras.utils.set_random_seed(3)
    parts = layers.Conv1D(4, 3, padding="same", activation="silu"), layers.GroupNormalization(2)
    model = of_layers((None, 2), *parts, layers.GRU(5, return_sequences=True))
    model(normal(1, 2, 2))  # it exports what was called
    path = tmp_path / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    feeds = [normal(*shape, 2) for shape in ((2, 6), (1, 1), (3, 20))]
    name = model.inputs[0].name
    for feed, (y,) in zip(feeds, check(path.read_bytes(), [{name: v} for v in feeds]), strict=True):
        agree(y, np.asarray(model(feed)), 1e-4)


@pytest.mark.parametrize("whole", [False, True], ids=["weights", "all"])
def test_quantised_files_of_tensorflow_lite(whole: bool, tmp_path: Path) -> None:
    """Of bytes are the weights alone, or all that is computed."""
    tf.keras.utils.set_random_seed(3)
    parts = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"), layers.Flatten()
    model = of_layers((8, 8, 3), *parts, layers.Dense(4, activation="softmax"))
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if whole:
        converter.representative_dataset = lambda: ([normal(1, 8, 8, 3)] for _ in range(4))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    path = tmp_path / "model.tflite"
    path.write_bytes(converter.convert())
    proto, _ = tf2onnx.convert.from_tflite(str(path), opset=15)
    (given,) = proto.graph.input
    batch = given.type.tensor_type.shape.dim[0].dim_value or 2
    check(proto.SerializeToString(), [{given.name: normal(batch, 8, 8, 3)} for _ in range(2)])
