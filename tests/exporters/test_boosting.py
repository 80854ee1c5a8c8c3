"""Models of LightGBM, XGBoost and CatBoost, against those and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exporters.exported import BATCHES, Array, agree, check, part

pytestmark = pytest.mark.filterwarnings("ignore")

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(200, 5)).astype(np.float32)
TWO = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
THREE = TWO + (X[:, 2] > 0.5)
NUMBERS = np.abs(X[:, 0] * 2 - X[:, 1] * X[:, 2])
HOLES = np.where(RANDOM.random(X.shape) < 0.1, np.nan, X).astype(np.float32)
CATEGORIES = np.concatenate([RANDOM.integers(0, 6, (200, 1)), X[:, 1:]], axis=1).astype(np.float32)


def compared(model: Any, written: Any, x: Array) -> None:
    """The same labels or numbers as the framework, from trees and missing values alike."""
    got = check(written.SerializeToString(), [{"X": x[:n]} for n in BATCHES])
    for n, outputs in zip(BATCHES, got, strict=True):
        wanted = np.asarray(model.predict(x[:n]))
        agree(outputs[0].reshape(wanted.shape), wanted.astype(outputs[0].dtype), 1e-4)


def types_of(x: Array) -> list[Any]:
    kind = part("onnxmltools.convert.common.data_types.FloatTensorType")
    return [("X", kind([None, x.shape[1]]))]


@pytest.mark.parametrize(
    ("name", "x", "y", "options", "fit"),
    [
        ("LGBMClassifier", X, TWO, {}, {}),
        ("LGBMClassifier", HOLES, THREE, {}, {}),
        ("LGBMClassifier", CATEGORIES, TWO, {}, {"categorical_feature": [0]}),
        ("LGBMClassifier", X, np.array(["no", "yes"])[TWO], {"boosting_type": "dart"}, {}),
        ("LGBMRegressor", HOLES, NUMBERS, {}, {}),
        ("LGBMRegressor", X, NUMBERS, {"objective": "poisson"}, {}),
    ],
)
def test_lightgbm(
    name: str, x: Array, y: Array, options: dict[str, Any], fit: dict[str, Any]
) -> None:
    pytest.importorskip("lightgbm")
    onnxmltools = pytest.importorskip("onnxmltools")
    common: dict[str, Any] = {"n_estimators": 6, "verbose": -1, "num_leaves": 7}
    model = part(f"lightgbm.{name}")(**common, **options).fit(x, y, **fit)
    written = onnxmltools.convert_lightgbm(model, initial_types=types_of(x), target_opset=15)
    compared(model, written, x)


@pytest.mark.parametrize(
    ("name", "x", "y", "options"),
    [
        ("XGBClassifier", X, TWO, {}),
        ("XGBClassifier", HOLES, THREE, {}),
        ("XGBRFRegressor", X, NUMBERS, {}),
        ("XGBRegressor", HOLES, NUMBERS, {}),
        ("XGBRegressor", X, NUMBERS, {"objective": "count:poisson"}),
        ("XGBRegressor", X, NUMBERS, {"max_depth": 12}),
    ],
)
def test_xgboost(name: str, x: Array, y: Array, options: dict[str, Any]) -> None:
    pytest.importorskip("xgboost")
    onnxmltools = pytest.importorskip("onnxmltools")
    common: dict[str, Any] = {"n_estimators": 6, "max_depth": 3}
    model = part(f"xgboost.{name}")(**{**common, **options}).fit(x, y)
    written = onnxmltools.convert_xgboost(model, initial_types=types_of(x), target_opset=15)
    compared(model, written, x)


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("CatBoostClassifier", X, TWO),
        ("CatBoostClassifier", HOLES, np.array(["a", "b", "c"])[THREE]),
        ("CatBoostRegressor", HOLES, NUMBERS),
    ],
)
def test_catboost(name: str, x: Array, y: Array, tmp_path: Path) -> None:
    pytest.importorskip("catboost")
    common: dict[str, Any] = {"iterations": 6, "depth": 4, "thread_count": 1}
    model = part(f"catboost.{name}")(**common, verbose=False, allow_writing_files=False).fit(x, y)
    model.save_model(str(tmp_path / "model.onnx"), format="onnx")
    written = (tmp_path / "model.onnx").read_bytes()
    got = check(written, [{"features": x[:n]} for n in BATCHES])
    for n, outputs in zip(BATCHES, got, strict=True):
        wanted = np.asarray(model.predict(x[:n])).reshape(outputs[0].shape)
        agree(outputs[0], wanted.astype(outputs[0].dtype), 1e-4)
