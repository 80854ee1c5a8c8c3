"""Compile a small convolutional network, run it on a dozen handwritten digits, and draw them.

The network and the images come from train.py beside this file. No image shown was trained on.
images.npz also holds the probabilities that the training code computed; the compiled network is
checked against them.
"""

import sys
import time
from io import TextIOWrapper
from pathlib import Path

import numpy as np
import numpy.typing as npt

import minicc

Array = npt.NDArray[np.float32]

HERE = Path(__file__).parent
SHADES = " ░▒▓█"
ACROSS = 4
TOLERANCE = 1e-4


def draw(image: Array, caption: str) -> list[str]:
    """The lines of one image, two characters a pixel, over its caption."""
    shades = np.rint(np.clip(image, 0.0, 1.0) * (len(SHADES) - 1)).astype(int)
    lines = ["".join(SHADES[shade] * 2 for shade in row) for row in shades]
    return [*lines, caption.center(2 * image.shape[1])]


def side_by_side(pictures: list[list[str]]) -> str:
    """Pictures of equal height in rows of `ACROSS`."""
    rows = [pictures[i : i + ACROSS] for i in range(0, len(pictures), ACROSS)]
    texts = ["\n".join(" │ ".join(parts) for parts in zip(*row, strict=True)) for row in rows]
    return "\n\n".join(texts)


def caption(predicted: int, probability: float, label: int) -> str:
    """The predicted class with its probability, and the true class where it is another."""
    if predicted == label:
        return f"{predicted} ({probability:.0%}), right"
    return f"{predicted} ({probability:.0%}), is {label}"


def classify(session: minicc.InferenceSession, images: Array) -> Array:
    """The probabilities of each image, [n, 10]; the network takes one image a call."""
    name = session.get_inputs()[0].name
    rows = [session.run(None, {name: image[None]})[0] for image in images]
    return np.concatenate(rows).astype(np.float32)


def main() -> int:
    """Return 0 where the compiled network agrees with the one that was trained."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    with np.load(HERE / "images.npz") as data:
        images, labels, expected = data["images"], data["labels"], data["probabilities"]

    start = time.perf_counter()
    session = minicc.InferenceSession(str(HERE / "digits.onnx"), threads=1)
    loaded = time.perf_counter()
    classify(session, images[:1])
    first = time.perf_counter()
    probabilities = classify(session, images)
    done = time.perf_counter()

    predicted = probabilities.argmax(axis=1)
    captions = map(caption, predicted, probabilities.max(axis=1), labels)
    print(side_by_side([draw(i[0], text) for i, text in zip(images, captions, strict=True)]))

    error = float(np.abs(probabilities - expected).max())
    print(f"\n{(predicted == labels).sum()} of {len(labels)} right")
    print(f"largest difference from the probabilities computed in training: {error:.1e}")
    print(f"\n{session.report()}\n")
    print(f"load and compile  {(loaded - start) * 1e3:9.3f} ms")
    print(f"first call        {(first - loaded) * 1e3:9.3f} ms")
    print(f"each of {len(images)} calls  {(done - first) / len(images) * 1e3:9.3f} ms")
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
