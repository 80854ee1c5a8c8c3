"""Random numbers, and pictures: what ONNX's own tests leave open."""

import io
import sys
import warnings
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator
from PIL import Image

from minicc import InferenceSession
from minicc.errors import UnsupportedError, UserError
from minicc.frontends.onnx.host.registry import set_seed

Array = np.ndarray[Any, Any]


def model(node: str, inputs: str = "float[3,4] x", outputs: str = "float[m,n] y") -> Any:
    head = '<ir_version: 10, opset_import: ["": 22]>'
    return onnx.parser.parse_model(f"{head}\nagraph ({inputs}) => ({outputs}) {{\n{node}\n}}")


def outputs(made: Any, **feeds: Array) -> list[Array]:
    return InferenceSession(made.SerializeToString(), threads=1).run(None, feeds)


@pytest.mark.parametrize(
    "node",
    [
        "y = RandomNormal <shape = [3, 4], mean = 0.25, scale = 3.0, seed = 7.0> ()",
        "y = RandomUniform <shape = [3, 4], low = -2.0, high = 5.0, seed = 7.0> ()",
        "y = RandomNormal <shape = [3, 4], seed = 8.0, dtype = 11> ()",
        "y = RandomUniformLike <low = -2.0, seed = 7.5> (x)",
        "y = RandomNormalLike <scale = 0.5, seed = 7.0, dtype = 10> (x)",
    ],
)
def test_a_seed_determines_the_numbers(node: str) -> None:
    kind = {"11": "double", "10": "float16"}.get(node.partition("dtype = ")[2][:2], "float")
    made = model(f"z = Identity (x)\n{node}", outputs=f"float[3,4] z, {kind}[3,4] y")
    x = np.zeros((3, 4), np.float32)
    _, got = outputs(made, x=x)
    expected: Any = ReferenceEvaluator(made).run(None, {"x": x})
    wanted = expected[1]
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-6 if kind != "float16" else 1e-2)


@pytest.mark.parametrize("extents", ["3,4", "a,b"])
def test_dropout_that_is_told_when_it_runs_whether_to_train(extents: str) -> None:
    """With free extents, too; a seed of 2**24 + 1 is not a float32."""
    inputs = f"float[{extents}] x, float r, bool t"
    text = "y, m = Dropout <seed = 16777217> (x, r, t)"
    made = model(text, inputs, f"float[{extents}] y, bool[{extents}] m")
    session = InferenceSession(made.SerializeToString(), threads=1)
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    for ratio in (0.0, 0.25, 0.75):
        for train in (False, True):
            feeds = {"x": x, "r": np.float32(ratio), "t": np.array(train)}
            got, mask = session.run(None, feeds)
            drawn = np.random.RandomState(16777217).uniform(0, 1, (3, 4))
            kept = (drawn >= ratio) | (not train)
            assert np.array_equal(mask, kept)
            scale = 1 / (1 - ratio) if train else 1
            np.testing.assert_allclose(got, np.where(kept, x * np.float32(scale), 0), rtol=1e-6)


def test_a_seed_that_starts_no_generator_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"MC0221.*seed"):
        outputs(model("y = RandomUniformLike <seed = -1.0> (x)"))


UNSEEDED = [
    "y = RandomNormal <shape = [3, 4]> ()",
    "y = RandomUniformLike <low = 1.0, high = 2.0> (x)",
    "y = Bernoulli (x)",
    "y = Multinomial <sample_size = 40> (x)",
    "t = Constant <value = bool {1}> () y = Dropout (x, , t)",
]


@pytest.mark.parametrize("node", UNSEEDED)
@pytest.mark.parametrize("inputs", ["float[3,4] x", "float[a,b] x"])
def test_without_a_seed_each_run_draws_others(node: str, inputs: str) -> None:
    kind = "int32" if "Multinomial" in node else "float"
    made = model(f"z = Identity (x)\n{node}", inputs, f"float[p,q] z, {kind}[m,n] y")
    session = InferenceSession(made.SerializeToString(), threads=1)
    x = np.full((3, 4), 0.5, np.float32)
    drawn = []
    for _ in range(2):
        set_seed(5)
        drawn.append([session.run(["y"], {"x": x})[0].tolist() for _ in range(4)])
    assert drawn[0] == drawn[1]
    assert len({str(numbers) for numbers in drawn[0]}) > 1


def test_two_nodes_without_a_seed_draw_different_numbers() -> None:
    made = model("a = RandomNormalLike (x)\nb = RandomNormalLike (x)\ny = Sub (a, b)")
    (y,) = outputs(made, x=np.ones((3, 4), np.float32))
    assert y.all()


def test_draws_have_the_probabilities_that_are_given() -> None:
    x = np.array([[0.1, 0.9, 0.0, 1.0]], np.float32).repeat(3000, axis=0)
    made = model("y = Bernoulli <seed = 3.0> (x)", "float[m,n] x")
    (y,) = outputs(made, x=x)
    np.testing.assert_allclose(y.mean(axis=0), x[0], atol=0.03)
    made = model(
        "y = Multinomial <sample_size = 3000, seed = 3.0> (x)", "float[m,n] x", "int32[m,n] y"
    )
    (y,) = outputs(made, x=np.log(x[:1] + 1e-9) + 5)
    np.testing.assert_allclose(np.bincount(y[0], minlength=4) / 3000, x[0] / 2, atol=0.03)


def test_draws_without_a_seed_have_the_probabilities_that_are_given() -> None:
    shares = np.array([[0.1, 0.9, 0.0, 1.0], [0.0, 0.5, 0.5, 0.0]], np.float32)
    set_seed(1)
    text = "y = Multinomial <sample_size = 4000> (x)"
    with np.errstate(divide="ignore"):
        logits = np.log(shares) + np.float32(5)
    for dims in ("m,n", "2,4"):
        made = model(text, f"float[{dims}] x", "int32[p,q] y")
        session = InferenceSession(made.SerializeToString(), threads=1)
        (y,) = session.run(None, {"x": logits})
        for row, share in zip(y, shares, strict=True):
            found = np.bincount(row, minlength=4) / 4000
            np.testing.assert_allclose(found, share / share.sum(), atol=0.03)
            assert not found[share == 0].any()
    for op, mean, spread in (("RandomNormalLike", 0, 1), ("RandomUniformLike", 0.5, 12**-0.5)):
        session = InferenceSession(
            model(f"y = {op} (x)", "float[a,b] x").SerializeToString(), threads=1
        )
        (y,) = session.run(None, {"x": np.zeros((100, 400), np.float32)})
        np.testing.assert_allclose([y.mean(), y.std()], [mean, spread], atol=0.02)
    kept = "r = Constant <value = float {0.2}> () t = Constant <value = bool {1}> () "
    session = InferenceSession(
        model(f"{kept} y = Dropout (x, r, t)", "float[a,b] x").SerializeToString(), threads=1
    )
    (y,) = session.run(None, {"x": np.ones((100, 400), np.float32)})
    assert set(np.unique(y)) == {0, np.float32(1.25)}
    assert abs((y == 0).mean() - 0.2) < 0.02


def encoded(mode: str, kind: str) -> Array:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


def decoder(pixel_format: str) -> Any:
    node = f'y = ImageDecoder <pixel_format = "{pixel_format}"> (x)'
    return model(node, "uint8[n] x", "uint8[h, w, c] y")


def test_pictures_have_the_channels_that_are_asked_for_whatever_the_file_has() -> None:
    for mode in ("L", "P", "1", "RGBA", "RGB"):
        given = encoded(mode, "png")
        (rgb,), (bgr,), (gray,) = (
            outputs(decoder(form), x=given) for form in ("RGB", "BGR", "Grayscale")
        )
        assert (rgb.shape, gray.shape) == ((5, 7, 3), (5, 7, 1))
        assert np.array_equal(rgb[..., ::-1], bgr)


@pytest.mark.parametrize("kind", ["png", "jpeg", "tiff", "bmp", "webp", "ppm", "jpeg2000"])
def test_what_is_no_picture_gives_an_empty_array(kind: str) -> None:
    given = encoded("RGB", kind)
    session = InferenceSession(decoder("RGB").SerializeToString(), threads=1)
    assert session.run(None, {"x": given})[0].shape == (5, 7, 3)
    for broken in (given[:11], given[::-1].copy(), np.zeros(0, np.uint8)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about what is broken
            (got,) = session.run(None, {"x": broken})
        assert got.size == 0
        assert got.ndim == 3


def test_what_pictures_need_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = decoder("RGB"), encoded("RGB", "png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(UserError, match=r"MC0158.*exceeds limit"):
        outputs(made, x=given)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r"MC0157.*Pillow.*\n.*\n  hint: pip install pillow"):
        outputs(made, x=given)
