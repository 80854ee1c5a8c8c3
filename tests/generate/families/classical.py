"""Operators of ai.onnx.ml, as converters of classical models write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import CLASSICAL, Draft, Item
from tests.generate.families.table import family
from tests.generate.source import F32, F64, I64


def _rows(draft: Draft, columns: int, special: float = 0.1) -> Item:
    rows = draft.source.pick((1, 1, 3, 17))
    return draft.tensor((F32,), shape=(rows, columns), exact=True, special=special)


def _numbers(draft: Draft, count: int) -> list[float]:
    return [float(np.float32(n)) for n in draft.source.rng.uniform(-2, 2, count)]


@family
def scaled_rows(draft: Draft) -> None:
    """What stands before a classical model: scalers, normalisers, binarisers, imputers."""
    source = draft.source
    columns = source.pick((1, 3, 5))
    op = source.pick(("Scaler", "Normalizer", "Binarizer", "Imputer", "ArrayFeatureExtractor"))
    x = _rows(draft, columns, special=0.3 if op in ("Imputer", "Binarizer") else 0)
    inputs: list[Item | None] = [x]
    how: dict[str, Any] = {}
    if op == "Scaler":
        how["offset"] = _numbers(draft, source.pick((1, columns)))
        how["scale"] = _numbers(draft, len(how["offset"]))
    elif op == "Normalizer":
        how["norm"] = source.pick(("MAX", "L1", "L2"))
    elif op == "Binarizer":
        how["threshold"] = source.pick((None, 0.5, -1.0))
    elif op == "Imputer":
        how["imputed_value_floats"] = _numbers(draft, source.pick((1, columns)))
        how["replaced_value_float"] = source.pick((float("nan"), 0.0))
    else:
        at = source.rng.integers(0, columns, source.pick((1, 2)))
        inputs.append(draft.fresh(at.astype(I64), 0.7))
    draft.node(op, inputs, domain=CLASSICAL, exact=op not in ("Scaler", "Normalizer"), **how)


@family
def linear_model(draft: Draft) -> None:
    source = draft.source
    columns, targets = source.pick((1, 4)), source.pick((1, 2, 3))
    how: dict[str, Any] = {
        "coefficients": _numbers(draft, columns * targets),
        "intercepts": source.pick((None, _numbers(draft, targets))),
        "targets": targets,
    }
    how["post_transform"] = source.pick((None, "NONE", "LOGISTIC", "SOFTMAX"))
    draft.node("LinearRegressor", [_rows(draft, columns, 0)], domain=CLASSICAL, **how)


@family
def trees(draft: Draft) -> None:
    """A forest of trees of two levels, with every kind of comparison."""
    source = draft.source
    columns, count, targets = 3, source.pick((1, 2, 20)), source.pick((1, 2))
    modes, features, thresholds, yes, no, ids, trees_of = [], [], [], [], [], [], []
    leaves: dict[str, list[Any]] = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for tree in range(count):
        for node in range(7):
            inner = node < 3
            kinds = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ")
            modes.append(source.pick(kinds) if inner else "LEAF")
            features.append(source.count(0, columns - 1) if inner else 0)
            thresholds.append(float(source.count(-2, 2)) if inner else 0.0)
            yes.append(2 * node + 1 if inner else 0)
            no.append(2 * node + 2 if inner else 0)
            ids.append(node)
            trees_of.append(tree)
            if not inner:
                leaves["treeids"].append(tree)
                leaves["nodeids"].append(node)
                leaves["ids"].append(source.count(0, targets - 1))
                leaves["weights"].append(_numbers(draft, 1)[0])
    stated: dict[str, Any] = {f"target_{name}": values for name, values in leaves.items()}
    draft.node(
        "TreeEnsembleRegressor",
        [_rows(draft, columns)],
        domain=CLASSICAL,
        n_targets=targets,
        aggregate_function=source.pick((None, "SUM", "AVERAGE", "MIN", "MAX")),
        nodes_modes=modes,
        nodes_featureids=features,
        nodes_values=thresholds,
        nodes_truenodeids=yes,
        nodes_falsenodeids=no,
        nodes_nodeids=ids,
        nodes_treeids=trees_of,
        **stated,
    )


@family
def encoded_labels(draft: Draft) -> None:
    source = draft.source
    keys, values = [3, 5, 7], _numbers(draft, 3)
    x = draft.fresh(source.rng.integers(2, 9, source.shape(source.pick((1, 2)))), 0.2)
    draft.node(
        "LabelEncoder",
        [x],
        domain=CLASSICAL,
        exact=True,
        keys_int64s=keys,
        values_floats=values,
        default_float=source.pick((None, 9.5)),
    )


@family
def one_of_categories(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((I64, F32, F64), source.pick((1, 2)), exact=True, special=0, low=0, high=5)
    zeros = source.pick((None, 1))
    cats = [0, 1, 3]
    draft.node("OneHotEncoder", [x], domain=CLASSICAL, exact=True, cats_int64s=cats, zeros=zeros)


@family
def linear_classes(draft: Draft) -> None:
    source = draft.source
    columns, classes = source.pick((1, 4)), source.pick((2, 3))
    rows = 1 if classes == 2 and source.chance(0.4) else classes
    how: dict[str, Any] = {
        "coefficients": _numbers(draft, columns * rows),
        "intercepts": _numbers(draft, rows),
        "classlabels_ints": source.pick(([0, 1, 2], [7, 3, 5]))[:classes],
        "multi_class": source.pick((None, 0, 1)),
        "post_transform": source.pick((None, "NONE", "LOGISTIC", "SOFTMAX")),
    }
    draft.node("LinearClassifier", [_rows(draft, columns, 0)], 2, domain=CLASSICAL, **how)


@family
def support_vectors(draft: Draft) -> None:
    source = draft.source
    columns, count = source.pick((1, 3)), 5
    kernel = source.pick(("LINEAR", "RBF", "POLY", "SIGMOID"))
    how: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.25, 0.5, 2.0],
        "support_vectors": _numbers(draft, count * columns),
    }
    x = _rows(draft, columns, 0)
    if source.chance(0.5):
        how |= {"coefficients": _numbers(draft, count), "n_supports": count}
        how["rho"] = _numbers(draft, 1)
        draft.node("SVMRegressor", [x], domain=CLASSICAL, **how)
        return
    held = source.pick(([2, 3], [1, 2, 2]))
    pairs = len(held) * (len(held) - 1) // 2
    how |= {"coefficients": _numbers(draft, count * (len(held) - 1)), "rho": _numbers(draft, pairs)}
    how |= {"vectors_per_class": held, "classlabels_ints": list(range(len(held)))}
    if source.chance(0.4):
        how |= {"prob_a": _numbers(draft, pairs), "prob_b": _numbers(draft, pairs)}
    draft.node("SVMClassifier", [x], 2, domain=CLASSICAL, **how)


@family
def tree_classes(draft: Draft) -> None:
    """A forest of stumps that votes for classes."""
    source = draft.source
    count, classes = source.pick((1, 3)), source.pick((2, 3))
    trees = [tree for tree in range(count) for _ in range(3)]
    leaves = [tree for tree in range(count) for _ in range(2)]
    draft.node(
        "TreeEnsembleClassifier",
        [_rows(draft, 3)],
        2,
        domain=CLASSICAL,
        nodes_treeids=trees,
        nodes_nodeids=[0, 1, 2] * count,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * count,
        nodes_featureids=[source.count(0, 2) for _ in trees],
        nodes_values=[float(source.count(-2, 2)) for _ in trees],
        nodes_truenodeids=[1, 0, 0] * count,
        nodes_falsenodeids=[2, 0, 0] * count,
        class_treeids=leaves,
        class_nodeids=[1, 2] * count,
        class_ids=[source.count(0, classes - 1) for _ in leaves],
        class_weights=[abs(n) for n in _numbers(draft, len(leaves))],
        classlabels_int64s=list(range(classes)),
        post_transform=source.pick((None, "NONE", "LOGISTIC", "SOFTMAX")),
    )


@family
def joined_features(draft: Draft) -> None:
    widths = [draft.source.pick((1, 3)) for _ in range(2)]
    parts = [draft.tensor((F32,), shape=(2, n), exact=True, special=0) for n in widths]
    draft.node("FeatureVectorizer", parts, domain=CLASSICAL, exact=True, inputdimensions=widths)
