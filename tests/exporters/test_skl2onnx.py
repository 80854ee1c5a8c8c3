"""Models of scikit-learn that skl2onnx wrote, against scikit-learn and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.exporters.exported import BATCHES, Array, agree, check, part

pytest.importorskip("sklearn")
skl2onnx = pytest.importorskip("skl2onnx")
pytestmark = pytest.mark.filterwarnings("ignore")

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(200, 5)).astype(np.float32)
TWO = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
THREE = TWO + (X[:, 2] > 0.5)
NAMES = np.array(["red", "green", "blue"])[THREE]
NUMBERS = X[:, 0] * 2 - X[:, 1] * X[:, 2]
BOTH = np.stack([NUMBERS, X[:, 3]], 1)
OPSETS = {"": 17, "ai.onnx.ml": 3}

CASES: list[tuple[str, dict[str, Any], Array | None]] = [
    ("ensemble.RandomForestClassifier", {"n_estimators": 5, "max_depth": 5}, NAMES),
    ("ensemble.RandomForestClassifier", {"n_estimators": 5, "max_depth": 5}, TWO),
    ("ensemble.RandomForestRegressor", {"n_estimators": 4, "max_depth": 12}, BOTH),
    ("ensemble.GradientBoostingClassifier", {"n_estimators": 5}, TWO),
    ("ensemble.GradientBoostingClassifier", {"n_estimators": 5}, THREE),
    ("ensemble.IsolationForest", {"n_estimators": 2}, None),
    ("tree.DecisionTreeClassifier", {}, THREE),
    ("linear_model.LogisticRegression", {}, TWO),
    ("linear_model.LogisticRegression", {}, NAMES),
    ("linear_model.Ridge", {}, BOTH),
    *[("svm.SVC", {"kernel": k}, THREE) for k in ("linear", "poly", "rbf", "sigmoid")],
    ("svm.SVC", {"probability": True}, THREE),
    ("svm.NuSVC", {"nu": 0.2}, TWO),
    ("svm.SVR", {}, NUMBERS),
    ("svm.OneClassSVM", {}, None),
    ("neighbors.KNeighborsClassifier", {}, THREE),
    ("naive_bayes.GaussianNB", {}, THREE),
    ("neural_network.MLPClassifier", {"hidden_layer_sizes": (6,), "max_iter": 50}, THREE),
    ("gaussian_process.GaussianProcessRegressor", {"alpha": 2.0}, NUMBERS),
    ("cluster.KMeans", {"n_clusters": 3, "n_init": 2}, None),
    ("mixture.GaussianMixture", {"n_components": 2}, None),
    ("decomposition.PCA", {"n_components": 3}, None),
    ("decomposition.KernelPCA", {"n_components": 2, "kernel": "rbf"}, None),
    ("preprocessing.KBinsDiscretizer", {"n_bins": 3, "encode": "onehot-dense"}, None),
]


def result(model: Any, x: Any) -> Any:
    """What scikit-learn gives first."""
    return model.predict(x) if hasattr(model, "predict") else model.transform(x)


@pytest.mark.parametrize(
    ("name", "options", "y"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_model_of_numbers(name: str, options: dict[str, Any], y: Array | None) -> None:
    model = part(f"sklearn.{name}")(**options).fit(X, y)
    written = skl2onnx.to_onnx(model, X[:1], target_opset=OPSETS).SerializeToString()
    got = check(written, [{"X": X[:n]} for n in BATCHES])
    for n, outputs in zip(BATCHES, got, strict=True):
        wanted = np.asarray(result(model, X[:n]))
        agree(outputs[0].reshape(wanted.shape), wanted.astype(outputs[0].dtype), 1e-3)


def test_columns_of_texts_and_numbers_with_holes() -> None:
    city = RANDOM.choice(["oslo", "rome", "paris"], 200)
    holes = np.where(RANDOM.random(200) < 0.1, np.nan, X[:, 1]).astype(np.float32)
    table = np.stack([city.astype(object), holes.astype(object), NAMES.astype(object)], 1)
    made, columns = (
        part("sklearn.pipeline.make_pipeline"),
        part("sklearn.compose.ColumnTransformer"),
    )
    numeric = made(
        part("sklearn.impute.SimpleImputer")(), part("sklearn.preprocessing.StandardScaler")()
    )
    one_hot = part("sklearn.preprocessing.OneHotEncoder")(handle_unknown="ignore")
    ordinal = part("sklearn.preprocessing.OrdinalEncoder")()
    before = columns([("a", one_hot, [0]), ("b", numeric, [1]), ("c", ordinal, [2])])
    model = made(before, part("sklearn.ensemble.GradientBoostingClassifier")(n_estimators=4))
    model.fit(table, TWO)
    kinds = (
        part("skl2onnx.common.data_types.StringTensorType"),
        part("skl2onnx.common.data_types.FloatTensorType"),
    )
    types = [(f"c{k}", kinds[k == 1]([None, 1])) for k in range(3)]
    written = skl2onnx.convert_sklearn(model, initial_types=types, target_opset=OPSETS)
    feed = {"c0": table[:, :1], "c1": holes[:, None], "c2": table[:, 2:]}
    got = check(written.SerializeToString(), [{k: v[:n] for k, v in feed.items()} for n in BATCHES])
    for n, outputs in zip(BATCHES, got, strict=True):
        assert outputs[0].tolist() == model.predict(table[:n]).tolist()


@pytest.mark.parametrize(
    ("how", "options"),
    [
        ({"ngram_range": (1, 2), "token_pattern": "[a-zA-Z0-9_]+"}, {}),
        ({"analyzer": "char", "ngram_range": (2, 3)}, {}),
        ({"stop_words": ["alpha", "pi"]}, {"separators": [" ", "-"]}),
    ],
)
def test_texts(how: dict[str, Any], options: dict[str, Any]) -> None:
    words = np.array(["alpha", "beta", "gamma", "delta", "pi", "na\u00efve", "d\u00e9j\u00e0-vu"])
    texts = np.array([" ".join(RANDOM.choice(words, 5)) for _ in range(200)], object)
    count = part("sklearn.feature_extraction.text.TfidfVectorizer")(**how)
    model = part("sklearn.pipeline.make_pipeline")(
        count, part("sklearn.naive_bayes.MultinomialNB")()
    )
    model.fit(texts, THREE)
    types = [("X", part("skl2onnx.common.data_types.StringTensorType")([None, 1]))]
    written = skl2onnx.convert_sklearn(
        model, initial_types=types, target_opset=OPSETS, options={id(count): options}
    )
    for node in written.graph.node:
        if node.op_type == "StringNormalizer":
            # the default is a locale that the system may lack
            node.attribute.append(part("onnx.helper.make_attribute")("locale", "C"))
    got = check(written.SerializeToString(), [{"X": texts[:n, None]} for n in BATCHES])
    for n, outputs in zip(BATCHES, got, strict=True):
        assert outputs[0].tolist() == model.predict(texts[:n]).tolist()


def test_a_dictionary() -> None:
    rows: list[dict[str, float]] = [{"a": 1.0, "b": 2.0}, {"c": 3.0}]
    model = part("sklearn.feature_extraction.DictVectorizer")(sparse=False).fit(rows)
    data = "skl2onnx.common.data_types."
    dictionary = part(f"{data}DictionaryType")(
        part(f"{data}StringTensorType")([1]), part(f"{data}FloatTensorType")([1])
    )
    written = skl2onnx.convert_sklearn(
        model, initial_types=[("X", dictionary)], target_opset=OPSETS
    )
    got = check(written.SerializeToString(), [{"X": row} for row in rows])
    for row, outputs in zip(rows, got, strict=True):
        agree(outputs[0], model.transform([row]).astype(np.float32), 0)
