"""The families of operators; importing one enters its operators into the tables.

Those here at the top are in most models or stand in both tables. Another is imported when a model
first has one of its operators, since importing all of them takes longer than importing many a
model.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from functools import cache

from minicc.frontends.onnx.host import choice, sequence, text
from minicc.frontends.onnx.ops import (
    activation,
    cast,
    constant,
    elementwise,
    linear,
    movement,
    normalize,
    reduce,
    window,
)

# By domain, the operators of each module. What stands in two tables is held by two.
_LATER: dict[str, dict[str, str]] = {
    "": {
        "ops.pad": "CenterCropPad Pad",
        "ops.random": (
            "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform "
            "RandomUniformLike"
        ),
        "host.random": "RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
        "ops.rearrange": "DepthToSpace EyeLike OneHot SpaceToDepth Tile Trilu",
        "ops.resize": "Resize Upsample",
        "ops.quantize": (
            "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv "
            "QLinearMatMul QuantizeLinear"
        ),
        "ops.transposed": "Col2Im ConvTranspose MaxUnpool",
        "ops.recurrent": "GRU LSTM RNN",
        "ops.cumulative": "CumProd CumSum",
        "ops.einsum": "Einsum",
        "ops.attention": "Attention RotaryEmbedding",
        "ops.sampling": "AffineGrid DeformConv GridSample",
        "ops.regions": "CausalConvWithState RoiAlign",
        "ops.text": "TfIdfVectorizer",
        "ops.signal": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
        "ops.loss": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
        "ops.experimental": "Affine Crop ImageScaler ParametricSoftplus Scale ScaledTanh",
        "host.regions": "MaxRoiPool",
        "host.image": "ImageDecoder",
        "microsoft.normalize": "SimplifiedLayerNormalization",
    },
    "ai.onnx.ml": {
        "ml.arithmetic": (
            "ArrayFeatureExtractor Binarizer FeatureVectorizer Imputer LabelEncoder "
            "Normalizer OneHotEncoder Scaler"
        ),
        "host.ml": (
            "ArrayFeatureExtractor CastMap CategoryMapper DictVectorizer LabelEncoder "
            "OneHotEncoder ZipMap"
        ),
        "ml.trees": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
        "ml.linear": "LinearClassifier LinearRegressor SVMClassifier SVMRegressor",
    },
    "ai.onnx.preview.training": {
        "ops.training": "Adagrad Adam Momentum",
        "ops.gradient": "Gradient",
    },
    "com.microsoft": {
        "microsoft.normalize": (
            "BranchwiseRMSNorm EmbedLayerNormalization GatedRMSNorm GroupNorm SkipGroupNorm "
            "SkipLayerNormalization SkipSimplifiedLayerNormalization"
        ),
        "microsoft.attention": "Attention MultiHeadAttention RotaryEmbedding",
        "microsoft.activation": (
            "BiasAdd BiasGelu BiasSoftmax BiasSplitGelu FastGelu GatedAdd Gelu GemmFastGelu "
            "QuickGelu ScaledSiLU"
        ),
        "microsoft.linear": (
            "FusedConv FusedGemm FusedMatMul NhwcConv NhwcFusedConv TransposeMatMul"
        ),
        "microsoft.quantize": (
            "DequantizeLinear DynamicQuantizeMatMul MatMulInteger16 MatMulIntegerToFloat "
            "QAttention QEmbedLayerNormalization QGemm QuantizeLinear"
        ),
        "microsoft.qlinear": (
            "NhwcMaxPool QLinearAdd QLinearAveragePool QLinearConcat QLinearConv "
            "QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean "
            "QLinearSigmoid QLinearSoftmax QLinearWhere"
        ),
        "microsoft.bits": "GatherBlockQuantized MatMulBnb4 MatMulNBits",
        "microsoft.grouped": "GroupQueryAttention SparseAttention",
        "microsoft.recurrent": "DynamicQuantizeLSTM",
        "microsoft.experts": "MoE QMoE",
        "microsoft.states": "CausalConvWithState LinearAttentionGate MRotaryEmbedding",
        "microsoft.decoding": (
            "DecoderMaskedMultiHeadAttention EngramGate GatedRelativePositionBias "
            "HyperConnectionPostMix HyperConnectionPreMix RelativePositionBias SampleOp "
            "WordConvEmbedding"
        ),
        "microsoft.more": (
            "CDist ComplexMul ComplexMulConj ConvTransposeWithDynamicPads CropAndResize "
            "ExpandDims GatherND GridSample NGramRepeatBlock Pad Range TorchEmbedding Trilu "
            "UnfoldTensor"
        ),
        "host.tokens": "BifurcationDetector DynamicTimeWarping Tokenizer",
        "host.microsoft": "Inverse MurmurHash3 Unique",
        "microsoft.search": "BeamSearch GreedySearch Sampling WhisperBeamSearch",
        "microsoft.ngrams": "NGramHashMapping VarlenNGramHashMapping",
    },
    "com.microsoft.nchwc": {
        "microsoft.blocked": (
            "AveragePool Conv GlobalAveragePool GlobalMaxPool MaxPool ReorderInput "
            "ReorderOutput Upsample"
        ),
    },
}


@cache
def _families() -> dict[str, tuple[str, ...]]:
    """The modules that hold each operator."""
    found: dict[str, list[str]] = defaultdict(list)
    for domain, families in _LATER.items():
        for family, names in families.items():
            for name in names.split():
                found[f"{domain}.{name}" if domain else name].append(family)
    return {name: tuple(families) for name, families in found.items()}


def enter(op: str) -> None:
    """Have an operator in the tables where any family has it; one that two have in both."""
    for family in _families().get(op, ()):
        importlib.import_module(f"{__package__}.{family}")


def enter_all() -> None:
    """Have the operators of all families in the tables."""
    for op in _families():
        enter(op)
