"""Operators of classical machine learning: rules in NumPy, and what ONNX Runtime decides.

Each model is one node whose batch is free. What the specification leaves open is written out as
ONNX Runtime 1.31 gives it, and compared with that where it is installed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from minicc.api.session import InferenceSession
from minicc.errors import UserError
from minicc.frontends.onnx import import_model
from minicc.frontends.onnx.families import enter_all
from minicc.frontends.onnx.host.registry import HOST
from minicc.frontends.onnx.registry import OPERATORS
from minicc.ir import graph

Array = np.ndarray[Any, Any]
F4 = np.float32
X = np.array([[1, 2], [-1, 0.25], [0, 0]], F4)
NAN, INF = float("nan"), float("inf")
TYPES = {"O": TensorProto.STRING}


def of(*values: Any, dtype: Any = F4) -> Array:
    return np.array(values, dtype)


def texts(*values: Any) -> Array:
    return np.array(values, object)


def tensor(*values: Any, dtype: Any = F4) -> Any:
    return numpy_helper.from_array(of(*values, dtype=dtype), "t")


def maps_info(name: str, maps: list[dict[Any, float]]) -> Any:
    """What a model declares of a sequence of maps to floats."""
    key = TensorProto.STRING if isinstance(next(iter(maps[0])), str) else TensorProto.INT64
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    sequence = helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
    return helper.make_value_info(name, sequence)


@dataclass(frozen=True)
class Case:
    """A node, its input, its outputs, and how far results may be apart."""

    op: str
    x: Array
    wants: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 1
    error: float = 2e-5

    def model(self, free: bool = True) -> bytes:
        """The model, whose batch is free or known."""

        def type_of(x: Any) -> int:
            kind = np.asarray(x).dtype
            return TYPES.get(kind.kind) or int(helper.np_dtype_to_tensor_dtype(kind))

        outs = [f"y{k}" for k in range(len(self.wants))]
        node = helper.make_node(self.op, ["x"], outs, "it", domain="ai.onnx.ml", **self.attributes)
        given = helper.make_tensor_value_info(
            "x", type_of(self.x), ["n" if free else len(self.x), *self.x.shape[1:]]
        )
        made = [
            maps_info(out, want) if isinstance(want, list)
            else helper.make_tensor_value_info(out, type_of(want), None)
            for out, want in zip(outs, self.wants, strict=True)
        ]  # fmt: skip
        body = helper.make_graph([node], "case", [given], made)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", self.opset)]
        model = helper.make_model(body, opset_imports=opsets, ir_version=8)
        return bytes(model.SerializeToString())

    def __str__(self) -> str:
        return self.op


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), F4)


def softmax(x: Array) -> Array:
    power = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(power / power.sum(axis=1, keepdims=True), F4)


W = of([0.5, 0.25], [-0.5, 1], [0.125, -1])
B = of(0.25, -0.5, 0.75)
LINEAR = X @ W.T + B
SCORE = X @ W[0] + B[0]
FLAT: dict[str, Any] = {"coefficients": W.ravel().tolist(), "intercepts": B.tolist()}
ONE: dict[str, Any] = {"coefficients": W[0].tolist(), "intercepts": [0.25]}
THREE: dict[str, Any] = {"classlabels_ints": [7, 5, 3]}
TWO: dict[str, Any] = {"classlabels_strings": ["no", "yes"]}
YES = texts(*["yes" if s > 0 else "no" for s in SCORE])
LINEAR_CASES = [
    Case("LinearRegressor", X, [SCORE[:, None]], {**ONE, "post_transform": "LOGISTIC"}),
    Case("LinearRegressor", X, [softmax(LINEAR)],
         {**FLAT, "targets": 3, "post_transform": "SOFTMAX"}),
    Case("LinearClassifier", X, [of(7, 5, 3, dtype=np.int64)[LINEAR.argmax(1)], LINEAR],
         {**FLAT, **THREE}),
    Case("LinearClassifier", X, [of(7, 5, 3, dtype=np.int64)[LINEAR.argmax(1)], softmax(LINEAR)],
         {**FLAT, **THREE, "post_transform": "SOFTMAX"}),
    # more coefficients than are read, as models of onnxmltools 1.2 have them
    Case("LinearClassifier", X, [of(7, 5, 3, dtype=np.int64)[LINEAR.argmax(1)], LINEAR],
         {**FLAT, **THREE, "coefficients": [*FLAT["coefficients"], *FLAT["coefficients"]]}),
    Case("LinearClassifier", X, [YES, np.stack([1 - SCORE, SCORE], 1)], {**ONE, **TWO}),
    Case("LinearClassifier", X, [YES, sigmoid(np.stack([-SCORE, SCORE], 1))],
         {**ONE, **TWO, "post_transform": "LOGISTIC"}),
]  # fmt: skip

# two vectors of the first class, one of the second, one of the third
VECTORS, HELD = of([1, 2], [3, -1], [0.5, -0.5], [-1, 1]), [2, 1, 1]
ALPHA = of([0.5, 0.25, -0.75, 0.5], [0.25, 0.5, 1, -1])
RHO = of(0.1, -0.2, 0.3)
PAIRS = [(0, 1), (0, 2), (1, 2)]
OF = [slice(0, 2), slice(2, 3), slice(3, 4)]


def kernel(kind: str, vectors: Array, gamma: float, shift: float, degree: float) -> Array:
    x, v = X.astype(np.float64), vectors.astype(np.float64)
    if kind == "RBF":
        return np.asarray(np.exp(-gamma * ((x[:, None] - v) ** 2).sum(2)))
    dot = x @ v.T
    other = {"POLY": lambda: (gamma * dot + shift) ** degree, "LINEAR": lambda: dot}
    return np.asarray(other.get(kind, lambda: np.tanh(gamma * dot + shift))())


def decisions(kind: str) -> Array:
    """What each pair of classes says: more than 0 for the first of it."""
    k = kernel(kind, VECTORS, 0.5, 0.25, 3)
    columns = [
        k[:, OF[i]] @ ALPHA[j - 1, OF[i]] + k[:, OF[j]] @ ALPHA[i, OF[j]] + RHO[n]
        for n, (i, j) in enumerate(PAIRS)
    ]
    return np.stack(columns, 1).astype(F4)


def voted(scores: Array) -> Array:
    votes = np.zeros((len(X), 3))
    for n, (i, j) in enumerate(PAIRS):
        votes[np.arange(len(X)), np.where(scores[:, n] > 0, i, j)] += 1
    return np.asarray(of(7, 5, 3, dtype=np.int64)[votes.argmax(1)])


def svm(kind: str) -> dict[str, Any]:
    return {"kernel_type": kind, "kernel_params": [0.5, 0.25, 3.0], "rho": RHO.tolist()}


CLASSIFIER: dict[str, Any] = {
    "coefficients": ALPHA.ravel().tolist(),
    "support_vectors": VECTORS.ravel().tolist(),
    "vectors_per_class": HELD,
    **THREE,
}
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
SUMS = {kind: kernel(kind, VECTORS, 0.5, 0.25, 3) @ ALPHA[0] + RHO[0] for kind in KERNELS}
REGRESSOR: dict[str, Any] = {
    "coefficients": ALPHA[0].tolist(),
    "support_vectors": VECTORS.ravel().tolist(),
    "n_supports": 4,
}
PAIR: dict[str, Any] = {
    "coefficients": [0.5, 0.25, -0.75],
    "support_vectors": VECTORS[:3].ravel().tolist(),
    "vectors_per_class": [2, 1],
    "classlabels_ints": [10, 20],
}
DECISION = (kernel("RBF", VECTORS[:3], 0.5, 0.25, 3) @ of(0.5, 0.25, -0.75) + RHO[0]).astype(F4)
FIRST = sigmoid(0.5 * DECISION - 0.1)
SVM_CASES = [
    *[Case("SVMClassifier", X, [voted(decisions(k)), decisions(k)], {**CLASSIFIER, **svm(k)})
      for k in KERNELS],
    *[Case("SVMRegressor", X, [SUMS[k][:, None].astype(F4)], {**REGRESSOR, **svm(k)})
      for k in KERNELS],
    Case("SVMRegressor", X, [np.where(SUMS["RBF"] > 0, 1, -1)[:, None].astype(F4)],
         {**REGRESSOR, **svm("RBF"), "one_class": 1}),
    Case("SVMClassifier", X, [np.where(DECISION > 0, 10, 20), np.stack([-DECISION, DECISION], 1)],
         {**PAIR, **svm("RBF")}),
    # of two classes the iteration comes as near as it must to what Platt's function says
    Case("SVMClassifier", X, [np.where(DECISION > 0, 10, 20), np.stack([FIRST, 1 - FIRST], 1)],
         {**PAIR, **svm("RBF"), "prob_a": [-0.5], "prob_b": [0.1]}, error=2.5e-3),
    Case("SVMClassifier", X, [of(7, 5, 3, dtype=np.int64)[(X @ W.T).argmax(1)], X @ W.T + RHO[0]],
         {**svm("LINEAR"), "coefficients": W.ravel().tolist(), **THREE}),
]  # fmt: skip

KEYS: dict[str, Any] = {"keys_int64s": [9, 4, 4, -2], "values_int64s": [1, 2, 3, 4]}
HOLES = of([1, NAN], [NAN, 4])
NUMBERS = of(4, -2, 5, 9, dtype=np.int64)
FLOATS: dict[str, Any] = {"keys_tensor": tensor(1.5, 0, NAN), "default_tensor": tensor(-1)}
SIDE: dict[str, Any] = {"keys_strings": ["a", "b"], "values_floats": [0.5, 2.0]}
CATEGORIES: dict[str, Any] = {"cats_strings": ["a", "b"], "cats_int64s": [5, 9]}
SIMPLE_CASES = [
    Case("Binarizer", X, [of([0, 1], [0, 0], [0, 0])], {"threshold": 1.0}),
    Case("Scaler", X, [(X - of(1, 2)) * of(2, 3)], {"offset": [1.0, 2.0], "scale": [2.0, 3.0]}),
    Case("Imputer", HOLES, [of([1, 8], [7, 4])],
         {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": NAN}),
    Case("Imputer", of([1, 2], [2, 1], dtype=np.int64), [of([9, 2], [2, 9], dtype=np.int64)],
         {"imputed_value_int64s": [9], "replaced_value_int64": 1}),
    Case("Normalizer", of([-1, -2], [3, -4], [0, 0]), [of([1, 2], [1, -4 / 3], [0, 0])]),
    Case("Normalizer", of([-1, -3], [0, 0]), [of([-0.25, -0.75], [0, 0])], {"norm": "L1"}),
    Case("Normalizer", of([3, -4], [0, 0]), [of([0.6, -0.8], [0, 0])], {"norm": "L2"}),
    Case("FeatureVectorizer", X, [X[:, :1]], {"inputdimensions": [1]}),
    Case("FeatureVectorizer", X, [np.pad(X, ((0, 0), (0, 1)))], {"inputdimensions": [3]}),
    Case("FeatureVectorizer", of(1, 2), [of([1, 2])], {"inputdimensions": [2]}),
    Case("FeatureVectorizer", X[:, None], [X], {"inputdimensions": [2]}),
    Case("OneHotEncoder", of(2, 7, 1, dtype=np.int64), [of([0, 1], [0, 0], [1, 0])],
         {"cats_int64s": [1, 2]}),
    Case("OneHotEncoder", texts("b", "q"), [of([0, 1], [0, 0])], {"cats_strings": ["a", "b"]}),
    Case("LabelEncoder", NUMBERS, [of(2, 4, -1, 1, dtype=np.int64)], KEYS, 2),
    Case("LabelEncoder", NUMBERS, [texts("b", "d", "?", "a")],
         {**KEYS, "values_int64s": None, "values_strings": [*"abcd"], "default_string": "?"}, 2),
    Case("LabelEncoder", NUMBERS, [of(-1, 3, -1, 1, dtype=np.int64)],
         {"keys_int64s": [9, 10**6, -2], "values_int64s": [1, 2, 3]}, 2),
    Case("LabelEncoder", texts("b", "z"), [of(2, -0.0)], SIDE, 2),
    Case("LabelEncoder", of(NAN, -0.0, 1.5, 7), [of(3, 2, 1, -1)],
         {**FLOATS, "values_tensor": tensor(1, 2, 3)}, 4),
    Case("LabelEncoder", texts("b", "z"), [of(1, 7, dtype=np.int64)],
         {"classes_strings": ["a", "b"], "default_int64": 7}),
    Case("LabelEncoder", of(1, -1, dtype=np.int64), [texts("b", "_Unused")],
         {"classes_strings": ["a", "b"]}),
    Case("CategoryMapper", texts("b", "z"), [of(9, -1, dtype=np.int64)], CATEGORIES),
    Case("CategoryMapper", of(5, 1, dtype=np.int64), [texts("a", "_Unused")], CATEGORIES),
    Case("ZipMap", X[:2], [[{"a": 1.0, "b": 2.0}, {"a": -1.0, "b": 0.25}]],
         {"classlabels_strings": ["a", "b"]}),
    Case("ZipMap", X[:1], [[{1: 2.0, 3: 1.0}]], {"classlabels_int64s": [3, 1]}),
]  # fmt: skip


def tree(modes: Sequence[str], splits: Sequence[float], missing: Sequence[int]) -> dict[str, Any]:
    """One tree: a node at the root, another where that holds; leaves 2, 3 and 4 below."""
    return {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": [*range(5)],
        "nodes_modes": [*modes, "LEAF", "LEAF", "LEAF"],
        "nodes_featureids": [0, 1, 0, 0, 0],
        "nodes_values": [*splits, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 2, 0, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0],
        "nodes_missing_value_tracks_true": [*missing, 0, 0, 0],
    }


def twice(one: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """The same tree two times, the second below `depth` more nodes that always lead to it."""
    chain = [*range(5, 5 + depth)]
    more = dict(one)
    more["nodes_treeids"] = [0] * 5 + [1] * (5 + depth)
    more["nodes_nodeids"] = [*one["nodes_nodeids"], *chain, *one["nodes_nodeids"]]
    more["nodes_modes"] = [*one["nodes_modes"], *["BRANCH_LT"] * depth, *one["nodes_modes"]]
    for name in ("nodes_featureids", "nodes_missing_value_tracks_true"):
        more[name] = [*one[name], *[1] * depth, *one[name]]
    more["nodes_values"] = [*one["nodes_values"], *[INF] * depth, *one["nodes_values"]]
    after = [*chain[1:], 0][:depth]
    more["nodes_truenodeids"] = [*one["nodes_truenodeids"], *after, *one["nodes_truenodeids"]]
    more["nodes_falsenodeids"] = [*one["nodes_falsenodeids"], *after, *one["nodes_falsenodeids"]]
    return more


def votes(kind: str, ids: Sequence[int], weights: Any) -> dict[str, Any]:
    """What leaves say, those of one tree after those of the other."""
    count = len(ids)
    return {
        f"{kind}_treeids": [k // 3 for k in range(count)],
        f"{kind}_nodeids": [2 + k % 3 for k in range(count)],
        f"{kind}_ids": [*ids],
        f"{kind}_weights": [float(w) for w in weights],
    }


ROWS = of([0, 0], [0, 1], [1, 0], [NAN, 0], [0, NAN], [1, 1])
COMPARE: dict[str, Any] = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
}  # fmt: skip


def leaves(modes: Sequence[str], splits: Sequence[float], missing: Sequence[int]) -> Array:
    """Which of the three leaves each row comes to."""
    holds = [
        COMPARE[mode](ROWS[:, k], F4(split)) | (np.isnan(ROWS[:, k]) & bool(lacks))
        for k, (mode, split, lacks) in enumerate(zip(modes, splits, missing, strict=True))
    ]
    return np.where(holds[0], np.where(holds[1], 0, 1), 2)


KINDS = [
    *[((mode, mode), (0.0, 1.0), (0, 1)) for mode in COMPARE],
    (("BRANCH_LEQ", "BRANCH_EQ"), (0.5, 0.0), (1, 0)),
    (("BRANCH_GT", "BRANCH_NEQ"), (0.5, 0.0), (0, 1)),
]
LEFT: Any = (("BRANCH_LEQ", "BRANCH_LT"), (0.5, 0.5), (0, 0))
AT = leaves(*LEFT)
ENDS = of(1, 2, 4)
LABEL = {"classlabels_int64s": [10, 20]}
PROBABLE, MIXED = of(0.2, 0.6, 0.9), of(-0.2, 0.6, -0.9)
SCORES = of([1, 0, 0], [0, -2, 0], [0, 0, 3])
TREE_CASES = [
    *[Case("TreeEnsembleRegressor", ROWS, [ENDS[leaves(*kind)][:, None]],
           {**tree(*kind), **votes("target", [0, 0, 0], ENDS), "n_targets": 1}) for kind in KINDS],
    *[Case("TreeEnsembleRegressor", ROWS, [(F4(times) * ENDS[AT] + F4(0.5))[:, None]],
           {**twice(tree(*LEFT), depth), **votes("target", [0] * 6, [*ENDS, *2 * ENDS]),
            "n_targets": 1, "aggregate_function": way, "base_values": [0.5]})
      for way, times, depth in (
          ("SUM", 3, 0), ("AVERAGE", 1.5, 3), ("MIN", 1, 9), ("MAX", 2, 0))],
    # each tree votes for a target of its own
    Case("TreeEnsembleRegressor", ROWS, [np.stack([ENDS[AT], 2 * ENDS[AT]], 1)],
         {**twice(tree(*LEFT)), **votes("target", [0] * 3 + [1] * 3, [*ENDS, *2 * ENDS]),
          "n_targets": 2}),
    Case("TreeEnsembleRegressor", ROWS, [sigmoid(np.stack([ENDS[AT], -ENDS[AT]], 1))],
         {**twice(tree(*LEFT)), **votes("target", [0] * 3 + [1] * 3, [*ENDS, *-ENDS]),
          "n_targets": 2, "post_transform": "LOGISTIC"}),
    # two classes of which one has votes: probabilities, then scores of both signs
    Case("TreeEnsembleClassifier", ROWS,
         [np.where(PROBABLE[AT] > 0.5, 20, 10), np.stack([1 - PROBABLE[AT], PROBABLE[AT]], 1)],
         {**tree(*LEFT), **votes("class", [0, 0, 0], PROBABLE), **LABEL}),
    Case("TreeEnsembleClassifier", ROWS,
         [np.where(MIXED[AT] > 0, 20, 10), np.stack([-MIXED[AT], MIXED[AT]], 1)],
         {**tree(*LEFT), **votes("class", [0, 0, 0], MIXED), **LABEL}),
    Case("TreeEnsembleClassifier", ROWS,
         [texts("no", "yes")[(MIXED[AT] + F4(0.25) > 0).astype(int)],
          sigmoid(np.stack([-MIXED[AT] - F4(0.25), MIXED[AT] + F4(0.25)], 1))],
         {**tree(*LEFT), **votes("class", [0, 0, 0], MIXED), "base_values": [0.25],
          "classlabels_strings": ["no", "yes"], "post_transform": "LOGISTIC"}),
    # a class without a vote is not chosen, though its score is greater than another's
    Case("TreeEnsembleClassifier", ROWS, [of(7, 5, 3, dtype=np.int64)[AT], SCORES[AT]],
         {**tree(*LEFT), **votes("class", [0, 1, 2], [1.0, -2.0, 3.0]),
          "classlabels_int64s": [7, 5, 3]}),
    Case("TreeEnsembleClassifier", ROWS.astype(np.float64),
         [of(7, 3, 3, dtype=np.int64)[AT], softmax(SCORES[AT] + of(0.25, 0.5, 0.75))],
         {**{k: v for k, v in tree(*LEFT).items() if k != "nodes_values"},
          **{k: v for k, v in votes("class", [0, 1, 2], []).items() if k != "class_weights"},
          "nodes_values_as_tensor": tensor(0.5, 0.5, 0, 0, 0, dtype=np.float64),
          "class_weights_as_tensor": tensor(1, -2, 3, dtype=np.float64),
          "base_values_as_tensor": tensor(0.25, 0.5, 0.75, dtype=np.float64),
          "classlabels_int64s": [7, 5, 3], "post_transform": "SOFTMAX"}, 3),
]  # fmt: skip

GROVE: dict[str, Any] = {
    # where the first feature is 1 or 3 the second is compared, else it is a leaf
    "n_targets": 2,
    "tree_roots": [0, 1],
    "nodes_modes": tensor(6, 0, dtype=np.uint8),
    "nodes_featureids": [0, 1],
    "nodes_splits": tensor(0, 0.5),
    "membership_values": tensor(1, 3, NAN),
    "nodes_truenodeids": [1, 0],
    "nodes_trueleafs": [0, 1],
    "nodes_falsenodeids": [2, 1],
    "nodes_falseleafs": [1, 1],
    "leaf_targetids": [0, 1, 1],
    "leaf_weights": tensor(2, 3, 5),
}
MEMBERS = of([3, 0], [1, 1], [2, 0], [NAN, 1])
BY_LEAF = of([4, 0], [0, 6], [2, 5], [0, 8])  # the second tree is a part of the first
GROVE_CASES = [
    Case("TreeEnsemble", MEMBERS, [BY_LEAF], GROVE, 5),
    Case("TreeEnsemble", MEMBERS, [BY_LEAF / 2], {**GROVE, "aggregate_function": 0}, 5),
    Case("TreeEnsemble", MEMBERS, [of([2, 0], [0, 3], [2, 5], [0, 3])],
         {**GROVE, "aggregate_function": 2}, 5),
    Case("TreeEnsemble", MEMBERS, [of([2, 0], [0, 3], [2, 5], [0, 5])],
         {**GROVE, "aggregate_function": 3}, 5),
]  # fmt: skip
HOSTED = ("ZipMap", "CategoryMapper")
OF_MAPS = {"CastMap", "DictVectorizer"}


def agree(got: Any, wanted: Any, error: float) -> None:
    if isinstance(wanted, list):
        assert [[*row.items()] for row in got] == [[*row.items()] for row in wanted]
        return
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind in "Oi":
        assert got.tolist() == wanted.tolist()
    else:
        np.testing.assert_allclose(got, wanted, rtol=error, atol=error)


ALL = [*LINEAR_CASES, *SVM_CASES, *SIMPLE_CASES, *TREE_CASES, *GROVE_CASES]


def is_of_texts(case: Case) -> bool:
    return any(np.asarray(v).dtype.kind == "O" for v in (case.x, *case.wants))


@pytest.mark.parametrize("case", ALL, ids=str)
def test_as_numpy_has_it(case: Case) -> None:
    model = case.model()
    ops = import_model(model).main.body.ops
    hosted = any(isinstance(op, graph.Host) for op in ops)
    assert hosted == (is_of_texts(case) or case.op in HOSTED)
    got = InferenceSession(model, threads=1).run(None, {"x": case.x})
    for one, other in zip(got, case.wants, strict=True):
        agree(one, other, case.error)


def test_rows_that_are_longer_than_labels() -> None:
    model = Case("ZipMap", X[:2], [[{3: 1.0}]], {"classlabels_int64s": [3]}).model()
    with pytest.raises(UserError, match=r"ZipMap: it has 1 label, and rows of an array of shape"):
        InferenceSession(model, threads=1).run(None, {"x": X[:2]})


@pytest.mark.parametrize("case", ALL, ids=str)
def test_as_onnx_runtime_has_it(case: Case) -> None:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(case.model(), providers=["CPUExecutionProvider"])
    runtime = session.run(None, {"x": case.x})
    got = InferenceSession(case.model(), threads=1).run(None, {"x": case.x})
    for one, other, wanted in zip(got, runtime, case.wants, strict=True):
        agree(other, wanted, case.error)
        agree(one, other, 2e-5)


def changed_model(case: Case, changed: Mapping[str, Any]) -> bytes:
    """The model of a case with other attributes."""
    return replace(case, attributes={**case.attributes, **changed}).model(free=False)


@pytest.mark.parametrize(
    ("case", "changed", "said"),
    [
        (LINEAR_CASES[2], {"coefficients": [1.0]}, "1 coefficients do not make 3 rows"),
        (LINEAR_CASES[2], {"post_transform": "ELSE"}, "post_transform is 'ELSE', none of"),
        (SVM_CASES[0], {"rho": [0.5]}, "its rho are 1 for 3 pairs of classes"),
        (SVM_CASES[0], {"kernel_type": "ELSE"}, "kernel_type is 'ELSE', none of"),
        (TREE_CASES[0], {"nodes_featureids": [2] * 5}, "features up to 2 of rows of 2"),
        (TREE_CASES[0], {"nodes_truenodeids": [9] * 5}, "name nodes that are not there"),
        (TREE_CASES[0], {"nodes_truenodeids": [0] * 5}, "leads back to itself"),
        (TREE_CASES[0], {"target_ids": [0, 0, 1]}, "vote for other targets than its 1"),
        (GROVE_CASES[0], {"tree_roots": [7]}, "its tree_roots are not all below 2"),
    ],
)  # fmt: skip
def test_attributes_that_do_not_fit(case: Case, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=f"(?s)MC0127.*{said}"):
        import_model(changed_model(case, changed))


def test_a_number_that_is_no_category() -> None:
    encoder = next(case for case in SIMPLE_CASES if case.op == "OneHotEncoder")
    session = InferenceSession(changed_model(encoder, {"zeros": 0}), threads=1)
    with pytest.raises(UserError, match="MC0158"):
        session.run(None, {"x": encoder.x})


def test_vectors_have_as_many_features_as_was_said_of_inputs_of_any_width() -> None:
    vector = helper.make_node("FeatureVectorizer", ["x"], ["y"], "", domain="ai.onnx.ml",
                              inputdimensions=[2])  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "width"])
    session = session_of([vector], [given], TensorProto.FLOAT)
    for width in (2, 4, 1, 0):
        x = np.ones((3, width), np.float32)
        (got,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (0, 2)))[:, :2])


def test_rows_of_any_width_are_as_wide_as_support_vectors() -> None:
    machine = helper.make_node(
        "SVMRegressor", ["x"], ["y"], "", domain="ai.onnx.ml", kernel_type="RBF",
        kernel_params=[1.0, 0.0, 3.0], coefficients=[1.0], support_vectors=[2.0], rho=[0.5],
        n_supports=1,
    )  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "width"])
    session = session_of([machine], [given], TensorProto.FLOAT)
    assert session.run(None, {"x": of([2], [2])})[0].tolist() == [[1.5], [1.5]]
    with pytest.raises(UserError, match="MC0142"):
        session.run(None, {"x": of([2, 2], [2, 2])})


def test_each_operator_has_a_case() -> None:
    enter_all()
    names = {
        n.removeprefix("ai.onnx.ml.") for n in (*OPERATORS, *HOST) if n.startswith("ai.onnx.ml")
    }
    assert names - {case.op for case in ALL} == {"ArrayFeatureExtractor", *OF_MAPS}


def session_of(nodes: Sequence[Any], inputs: Sequence[Any], element: int) -> InferenceSession:
    """A session for nodes on inputs `x` that give `y`, a tensor of this element type."""
    out = helper.make_tensor_value_info("y", element, None)
    names = numpy_helper.from_array(texts("red", "green", "blue"), "names")
    numbers = {"ends": [1], "shape": [-1, 1], "first": [0], "axis": [1]}
    held = [numpy_helper.from_array(np.array(v), name) for name, v in numbers.items()]
    body = helper.make_graph(nodes, "case", inputs, [out], [names, *held])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=8)
    return InferenceSession(model.SerializeToString(), threads=1)


def map_info(key: int, value: int) -> Any:
    tensor_type = helper.make_tensor_type_proto(value, [])
    return helper.make_value_info("x", helper.make_map_type_proto(key, tensor_type))


@pytest.mark.parametrize(
    ("key", "value", "given", "op", "attributes", "wanted"),
    [
        ("STRING", "FLOAT", {"a": 2, "c": 4}, "DictVectorizer",
         {"string_vocabulary": ["c", "b", "a"]}, of([4, 0, 2])),
        ("INT64", "DOUBLE", {7: 2.5}, "DictVectorizer",
         {"int64_vocabulary": [7, 1]}, of([2.5, 0], dtype=np.float64)),
        ("STRING", "INT64", {"b": 5}, "DictVectorizer",
         {"string_vocabulary": ["a", "b"]}, of([0, 5], dtype=np.int64)),
        ("INT64", "FLOAT", {3: 1.5, 1: 2}, "CastMap", {}, of([2, 1.5])),
        ("INT64", "FLOAT", {3: 1.5, 1: 2}, "CastMap",
         {"map_form": "SPARSE", "max_map": 4, "cast_to": "TO_INT64"},
         of([0, 2, 0, 1], dtype=np.int64)),
        ("INT64", "STRING", {1: "2.5", 0: "7"}, "CastMap", {}, of([7, 2.5])),
    ],
)  # fmt: skip
def test_a_map_goes_in(
    key: str, value: str, given: Any, op: str, attributes: Any, wanted: Array
) -> None:
    kinds = {name: TensorProto.DataType.Value(name) for name in (key, value)}
    node = helper.make_node(op, ["x"], ["y"], "it", domain="ai.onnx.ml", **attributes)
    element = int(helper.np_dtype_to_tensor_dtype(wanted.dtype))
    session = session_of([node], [map_info(kinds[key], kinds[value])], element)
    assert session.get_inputs()[0].type == f"map({key.lower()},tensor({value.lower()}))"
    agree(session.run(None, {"x": given})[0], wanted.reshape(1, -1), 0)


def test_a_map_to_what_is_no_number() -> None:
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml",
                            string_vocabulary=["a"])  # fmt: skip
    inputs = [map_info(TensorProto.STRING, TensorProto.FLOAT)]
    session = session_of([node], inputs, TensorProto.FLOAT)
    with pytest.raises(UserError, match=r"MC0143.*the value 'b', and must be one to f32"):
        session.run(None, {"x": {"a": "b"}})


def moved(*nodes: tuple[str, str, str, dict[str, Any]]) -> list[Any]:
    return [helper.make_node(op, a.split(), b.split(), **c) for op, a, b, c in nodes]


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        (moved(("Reshape", "x shape", "y", {})), texts(["a"], ["1"])),
        (moved(("Concat", "x names", "y", {"axis": 0})), texts("a", "1", "red", "green", "blue")),
        (moved(("Unsqueeze", "x axis", "u", {}), ("Transpose", "u", "y", {"perm": [1, 0]})),
         texts(["a", "1"])),
        (moved(("Equal", "x x", "c", {}), ("Gather", "names first", "g", {}),
               ("Where", "c x g", "y", {})), texts("a", "1")),
        (moved(("Slice", "names first ends first", "y", {})), texts("red")),
        (moved(("Gather", "x ends", "g", {}), ("Cast", "g", "i", {"to": TensorProto.INT64}),
               ("Gather", "names i", "y", {})), texts("green")),
        (moved(("Gather", "x ends", "g", {}), ("Cast", "g", "f", {"to": TensorProto.FLOAT}),
               ("Div", "f f", "q", {}), ("Cast", "q", "y", {"to": TensorProto.STRING})),
         texts("1")),
    ],
)  # fmt: skip
def test_texts_are_moved_and_cast(nodes: list[Any], wanted: Array) -> None:
    inputs = [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])]
    session = session_of(nodes, inputs, TensorProto.STRING)
    for _ in range(2):
        agree(session.run(None, {"x": texts("a", "1")})[0], wanted, 0)
    if any("names" in node.input for node in nodes):
        return
    (empty,) = session.run(None, {"x": texts()}) if nodes[0].op_type == "Reshape" else (texts(),)
    assert empty.size == 0
    assert empty.dtype == object


def test_numbers_as_texts() -> None:
    nodes = moved(("Cast", "x", "y", {"to": TensorProto.STRING}))
    for element, given, wanted in (
        (TensorProto.FLOAT, of(1.5, NAN, -INF, 1e-7), ["1.5", "NaN", "-INF", "1e-07"]),
        (TensorProto.DOUBLE, of(0.1, dtype=np.float64), ["0.1"]),
        (TensorProto.INT64, of(-3, dtype=np.int64), ["-3"]),
        (TensorProto.BOOL, of(True, dtype=np.bool_), ["1"]),
    ):
        inputs = [helper.make_tensor_value_info("x", element, ["n"])]
        session = session_of(nodes, inputs, TensorProto.STRING)
        assert session.run(None, {"x": given})[0].tolist() == wanted


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"tokenexp": "[a-z]+", "mincharnum": 2}, [["ab", "cde"], ["xy", "#"]]),
        ({"separators": [" ", "-"], "mincharnum": 1}, [["ab", "cde", "f"], ["xy", "#", "#"]]),
        ({"separators": [""], "mincharnum": 1, "mark": 1},
         [["\x02", *"ab cde-f", "\x03"], ["\x02", *"xy", "\x03", *"######"]]),
    ],
)  # fmt: skip
def test_tokens(attributes: dict[str, Any], wanted: list[list[str]]) -> None:
    body = helper.make_graph(
        [helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", pad_value="#",
                          **{"mark": 0, **attributes})],
        "case",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, None)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=8).SerializeToString()
    x = texts("ab cde-f", "xy")
    assert InferenceSession(model).run(None, {"x": x})[0].tolist() == wanted
    try:
        import onnxruntime as ort  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return
    assert ort.InferenceSession(model).run(None, {"x": x})[0].tolist() == wanted
