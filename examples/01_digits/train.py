"""Train the lesson's network in plain NumPy and write digits.onnx and images.npz beside this file.

The data are scikit-learn's digits: 1,797 handwritten digits of 8 x 8 pixels. One in five is held
out and never trained on. Only this script needs scikit-learn; running the network does not.
"""

from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

Array = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

HERE = Path(__file__).parent
SEED = 20
EPOCHS = 30
BATCH = 32
RATE = 2e-3
SHOWN = 12


class Layer(Protocol):
    """A step of the network: `backward` takes and returns gradients of the last `forward`."""

    def forward(self, x: Array) -> Array: ...

    def backward(self, dy: Array) -> Array: ...


class Affine:
    """Rows times a weight of shape [outputs, inputs], plus a bias."""

    def __init__(self, rng: np.random.Generator, outputs: int, inputs: int) -> None:
        scale = np.sqrt(2.0 / inputs)
        self.weight: Array = (scale * rng.standard_normal((outputs, inputs))).astype(np.float32)
        self.bias: Array = np.zeros(outputs, np.float32)
        self.grads: list[Array] = []

    @property
    def params(self) -> list[Array]:
        return [self.weight, self.bias]

    def forward(self, x: Array) -> Array:
        self.x = x
        return x @ self.weight.T + self.bias

    def backward(self, dy: Array) -> Array:
        self.grads = [dy.T @ self.x, dy.sum(axis=0)]
        return dy @ self.weight


class Conv3x3(Affine):
    """A 3 x 3 convolution with a border of one zero, as a product with the unfolded image."""

    def __init__(self, rng: np.random.Generator, outputs: int, inputs: int) -> None:
        super().__init__(rng, outputs, inputs * 9)

    def forward(self, x: Array) -> Array:
        n, c, h, w = self.shape = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)
        return super().forward(rows).reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, dy: Array) -> Array:
        n, c, h, w = self.shape
        drows = super().backward(dy.transpose(0, 2, 3, 1).reshape(n * h * w, -1))
        taps = drows.reshape(n, h, w, c, 3, 3)
        dx = np.zeros((n, c, h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                dx[:, :, i : i + h, j : j + w] += taps[..., i, j].transpose(0, 3, 1, 2)
        return dx[:, :, 1:-1, 1:-1]


class Relu:
    """The positive part."""

    def forward(self, x: Array) -> Array:
        self.positive = x > 0
        return np.where(self.positive, x, np.float32(0))

    def backward(self, dy: Array) -> Array:
        return np.where(self.positive, dy, np.float32(0))


class MaxPool2x2:
    """The largest of each 2 x 2 block."""

    def forward(self, x: Array) -> Array:
        n, c, h, w = self.shape = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
        self.blocks = blocks.reshape(n, c, h // 2, w // 2, 4)
        self.winner = self.blocks.argmax(axis=-1)[..., None]
        return np.take_along_axis(self.blocks, self.winner, axis=-1)[..., 0]

    def backward(self, dy: Array) -> Array:
        n, c, h, w = self.shape
        dblocks = np.zeros_like(self.blocks)
        np.put_along_axis(dblocks, self.winner, dy[..., None], axis=-1)
        split = dblocks.reshape(n, c, h // 2, w // 2, 2, 2)
        return split.transpose(0, 1, 2, 4, 3, 5).reshape(self.shape)


class Flatten:
    """One row an image."""

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy: Array) -> Array:
        return dy.reshape(self.shape)


class Network:
    """The layers in order; `conv1`, `conv2` and `gemm` have weights."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.conv1 = Conv3x3(rng, 16, 1)
        self.conv2 = Conv3x3(rng, 32, 16)
        self.gemm = Affine(rng, 10, 32 * 4 * 4)
        self.weighted: list[Affine] = [self.conv1, self.conv2, self.gemm]
        self.layers: list[Layer] = [
            self.conv1,
            Relu(),
            self.conv2,
            Relu(),
            MaxPool2x2(),
            Flatten(),
            self.gemm,
        ]

    def probabilities(self, images: Array) -> Array:
        x = images
        for layer in self.layers:
            x = layer.forward(x)
        powers: Array = np.exp(x - x.max(axis=1, keepdims=True))
        total: Array = powers.sum(axis=1, keepdims=True)
        return powers / total

    def backward(self, probabilities: Array, labels: Labels) -> None:
        """Fill the gradients of the mean cross-entropy over the batch."""
        dy = (probabilities - np.eye(10, dtype=np.float32)[labels]) / np.float32(len(labels))
        for layer in reversed(self.layers):
            dy = layer.backward(dy)


class Adam:
    """Adam (Kingma and Ba, 2015) over the network's parameters, which it updates in place."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.params = [p for layer in network.weighted for p in layer.params]
        self.first = [np.zeros_like(p) for p in self.params]
        self.second = [np.zeros_like(p) for p in self.params]
        self.steps = 0

    def step(self, rate: float) -> None:
        self.steps += 1
        grads = [g for layer in self.network.weighted for g in layer.grads]
        for p, g, m, v in zip(self.params, grads, self.first, self.second, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            mean = m / (1 - 0.9**self.steps)
            spread = np.sqrt(v / (1 - 0.999**self.steps))
            p -= rate * mean / (spread + 1e-8)


def digits() -> tuple[Array, Labels]:
    """All images, [n, 1, 8, 8] from 0 to 1, and their classes."""
    data = load_digits()
    images = (np.asarray(data.images) / 16.0).astype(np.float32)[:, None]
    return images, np.asarray(data.target, np.int64)


def accuracy(network: Network, images: Array, labels: Labels) -> float:
    """The share of images whose most probable class is the true one."""
    return float((network.probabilities(images).argmax(axis=1) == labels).mean())


def train(network: Network, images: Array, labels: Labels, rng: np.random.Generator) -> None:
    """Run all epochs; the rate falls along half a cosine."""
    adam = Adam(network)
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            network.backward(network.probabilities(images[batch]), labels[batch])
            adam.step(rate)
        print(f"epoch {epoch + 1:2}: {accuracy(network, images, labels):.2%} of the training set")


def to_onnx(network: Network) -> onnx.ModelProto:
    """The network with its weights, for one image at a time."""
    weights = {
        "conv1.weight": network.conv1.weight.reshape(16, 1, 3, 3),
        "conv1.bias": network.conv1.bias,
        "conv2.weight": network.conv2.weight.reshape(32, 16, 3, 3),
        "conv2.bias": network.conv2.bias,
        "gemm.weight": network.gemm.weight,
        "gemm.bias": network.gemm.bias,
    }

    def conv(name: str, source: str) -> onnx.NodeProto:
        inputs = [source, f"{name}.weight", f"{name}.bias"]
        return helper.make_node(
            "Conv", inputs, [name], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1]
        )

    nodes = [
        conv("conv1", "image"),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        conv("conv2", "relu1"),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        helper.make_node(
            "MaxPool", ["relu2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("Flatten", ["pool"], ["flat"], "flatten", axis=1),
        helper.make_node(
            "Gemm", ["flat", "gemm.weight", "gemm.bias"], ["logits"], "gemm", transB=1
        ),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(
        graph,
        producer_name="minicc examples/01_digits",
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )


def main() -> None:
    """Train, measure on the held-out images, and write both files."""
    rng = np.random.default_rng(SEED)
    images, labels = digits()
    order = rng.permutation(len(images))
    held_out, kept = order[: len(order) // 5], order[len(order) // 5 :]

    network = Network(rng)
    train(network, images[kept], labels[kept], rng)
    print(f"held out: {accuracy(network, images[held_out], labels[held_out]):.2%} right")

    model = to_onnx(network)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / "digits.onnx")
    shown = held_out[:SHOWN]
    np.savez(
        HERE / "images.npz",
        images=images[shown],
        labels=labels[shown],
        probabilities=network.probabilities(images[shown]),
    )


if __name__ == "__main__":
    main()
