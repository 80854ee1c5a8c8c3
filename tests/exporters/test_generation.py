"""Models that ONNX Runtime's model builder for generation wrote, against ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, load

from minicc.api.session import InferenceSession
from tests.exporters.exported import agree, part, runtime_session

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxruntime_genai.models.builder")
transformers: Any = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

WORDS, SIZE, ROOM = 96, 16, 9
COMMON: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 64,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
WINDOW: dict[str, Any] = {"head_dim": SIZE, "sliding_window": 8}
EXPERTS: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}
TURNS: dict[str, Any] = {
    "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
    "mrope_section": [2, 1, 1], "mrope_interleaved": True,
}  # fmt: skip
LINEAR: dict[str, Any] = {
    "head_dim": SIZE, "rope_parameters": TURNS, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
VISION: dict[str, Any] = {"depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32}
SCALES = {"scales": {"k_scales": [0.02, 0.02], "v_scales": [0.02, 0.03]}}
KINDS: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "plain": ("Llama", "ForCausalLM", COMMON, []),
    "small caches": ("Llama", "ForCausalLM", COMMON, ["kv_cache_quant_scheme=int4_per_tensor"]),
    "windows": ("GptOss", "ForCausalLM", COMMON | WINDOW | EXPERTS, []),
    "states": (
        "Qwen3_5",
        "ForConditionalGeneration",
        {"text_config": COMMON | LINEAR, "vision_config": VISION | {"out_hidden_size": 64}},
        [],
    ),
}


def saved(folder: Path, kind: str) -> Path:
    """The model as the builder writes it, with random weights."""
    name, ending, given, options = KINDS[kind]
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**given)
    getattr(transformers, f"{name}{ending}")(config).save_pretrained(folder / "source")
    words = part("tokenizers.models.WordLevel")({f"w{k}": k for k in range(WORDS)}, unk_token="w0")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=part("tokenizers.Tokenizer")(words), eos_token="w2", pad_token="w0"
    ).save_pretrained(folder / "source")
    if options:
        (folder / "scales.json").write_text(json.dumps(SCALES))
        options = [*options, f"kv_cache_scale_file={folder / 'scales.json'}"]
    builder = part("onnxruntime_genai.models.builder")
    places = (name, str(folder / "source"), str(folder / "made"), "fp32", "cpu", str(folder))
    builder.create_model(*places, **builder.parse_extra_options(*places, options))
    return folder / "made" / "model.onnx"


def feed(inputs: Any, batch: int, steps: int, before: int) -> dict[str, Any]:
    """Values for each input, after so many words."""
    random, made = np.random.default_rng(5), {}
    sizes = {
        "batch_size": batch, "sequence_length": steps, "total_sequence_length": before + steps,
        "past_sequence_length": before, "past_sliding_length": ROOM, "kv_cache_dim": SIZE,
    }  # fmt: skip
    for value in inputs:
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        dims = value.type.tensor_type.shape.dim
        shape = [d.dim_value or sizes.get(d.dim_param, 0) for d in dims]
        if value.name == "attention_mask":
            made[value.name] = np.ones(shape, kind)
        elif value.name == "position_ids":
            made[value.name] = np.broadcast_to(np.arange(before, before + steps), shape).astype(
                kind
            )
        elif kind.kind in "iu":
            made[value.name] = random.integers(3, WORDS, shape).astype(kind)
        else:
            made[value.name] = random.normal(size=shape).astype(kind)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_after_several_words(kind: str, tmp_path: Path) -> None:
    path = saved(tmp_path, kind)
    inputs = load(path, load_external_data=False).graph.input
    session, runtime = InferenceSession(str(path), threads=1), runtime_session(str(path))
    for batch, steps, before in ((2, 5, 0), (1, 1, 7), (2, 1, 3), (1, 4, 12)):
        given = feed(inputs, batch, steps, before)
        # rows of a cache where nothing is kept may be anything
        wanted = runtime.run(["logits"], given)
        agree(session.run(["logits"], given), wanted, 1e-4)
