"""LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import Draft, Item
from tests.generate.families.table import family
from tests.generate.source import F32, I32, Source

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
_PLAIN = ("Relu", "Tanh", "Sigmoid")
_SCALED = ("Affine", "ScaledTanh", "HardSigmoid")


@family
def recurrent(draft: Draft) -> None:
    source = draft.source
    op = source.pick(("LSTM", "LSTM", "GRU", "RNN"))
    direction = source.pick(("forward", "reverse", "bidirectional"))
    ways = 1 + (direction == "bidirectional")
    steps, batch = source.pick((1, 2, 5)), source.pick((1, 2, 3))
    taken, hidden = source.pick((1, 3)), source.pick((1, 2, 4))

    def drawn(*shape: int, constant: float = 0.8) -> Item:
        return draft.fresh(source.array(shape, F32, -1, 1, 0), constant)

    def maybe(item: Item) -> Item | None:
        return item if source.chance(0.5) else None

    gates = _GATES[op] * hidden
    x = draft.tensor((F32,), shape=(steps, batch, taken), special=0)
    lengths = source.rng.integers(1, steps + 1, batch).astype(I32)
    inputs = [
        x,
        drawn(ways, gates, taken),
        drawn(ways, gates, hidden),
        maybe(drawn(ways, 2 * gates)),
        maybe(draft.fresh(lengths, 0.4)),
        maybe(drawn(ways, batch, hidden, constant=0.4)),
    ]
    if op == "LSTM":
        inputs.append(maybe(drawn(ways, batch, hidden, constant=0.4)))
        inputs.append(maybe(drawn(ways, 3 * hidden)))
    attributes: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": direction,
        "clip": source.pick((None, None, 0.3, 50.0)),
        **_activations(source, _FUNCTIONS[op] * ways),
    }
    if op == "LSTM":
        attributes["input_forget"] = source.pick((None, None, 1))
    elif op == "GRU":
        attributes["linear_before_reset"] = source.pick((None, 1))
    draft.node(op, inputs, 3 if op == "LSTM" else 2, **attributes)


def _activations(source: Source, count: int) -> dict[str, Any]:
    if source.chance(0.6):
        return {}
    if source.chance(0.5):
        return {"activations": [source.pick(_PLAIN) for _ in range(count)]}
    numbers = [np.round(source.rng.uniform(0.2, 1.5, count), 2).tolist() for _ in range(2)]
    return {
        "activations": [source.pick(_SCALED) for _ in range(count)],
        "activation_alpha": numbers[0],
        "activation_beta": numbers[1],
    }
