"""An EAGLE-3 head as llama.cpp loads it: GGUF of its architecture `eagle3`, in float32.

llama.cpp's RoPE turns neighbouring values of a query or key together, and transformers' turns the two halves,
so their rows change places. Its map of the draft's vocabulary holds the target's token ids, and the head's
holds how far those lie from its own. llama.cpp has no `norm_output`: it hands on the state before the last
norm. A head whose last norm is nearly flat, as the shipped one's is, hardly notices.
Sources: llama.cpp b11549, src/models/eagle3.cpp and conversion/llama.py.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from specbook.bench import packaged_models
from specbook.config.checkpoint import read_config
from specbook.errors import ConfigError

ARCHITECTURE = "eagle3"
LAYER = "layers.0."
NAMES = {
    "fc": "fc",
    "input_norm": "enc.output_norm",
    "norm": "output_norm",
    "lm_head": "output",
    f"{LAYER}input_layernorm": "blk.0.attn_norm",
    f"{LAYER}hidden_norm": "blk.0.attn_norm_2",
    f"{LAYER}self_attn.q_proj": "blk.0.attn_q",
    f"{LAYER}self_attn.k_proj": "blk.0.attn_k",
    f"{LAYER}self_attn.v_proj": "blk.0.attn_v",
    f"{LAYER}self_attn.o_proj": "blk.0.attn_output",
    f"{LAYER}post_attention_layernorm": "blk.0.ffn_norm",
    f"{LAYER}mlp.gate_proj": "blk.0.ffn_gate",
    f"{LAYER}mlp.up_proj": "blk.0.ffn_up",
    f"{LAYER}mlp.down_proj": "blk.0.ffn_down",
}
"""Name of a tensor in a head by speculators -> in GGUF, `.weight` left out. Embeddings are the target's."""


def write(head: Path, target: Path, out: Path) -> Path:
    """Put the head in `head` into `out` as one GGUF, with the tokenizer of the GGUF `target`; returns `out`.

    Raises:
        ConfigError: if a tensor of the head has no place in llama.cpp's architecture.
    """
    from gguf import GGUFReader, GGUFWriter, LlamaFileType

    tensors, config = load_file(head / "model.safetensors"), read_config(head)
    distances = tensors.pop("d2t")
    tensors.pop("t2d", None)  # the map's other direction, which drafting does not need
    named = {name.removesuffix(".weight"): tensor.float() for name, tensor in tensors.items()}
    if other := sorted(named.keys() - NAMES.keys()):
        raise ConfigError(f"llama.cpp's {ARCHITECTURE} has no place for {', '.join(other)} of {head}")
    layer = config["transformer_layer_config"]
    for matrix, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        name = f"{LAYER}self_attn.{matrix}"
        named[name] = _neighbours(named[name], layer[heads])

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shutil.copy(head / "config.json", out)
    writer = GGUFWriter(out / f"{head.name}-F32.gguf", ARCHITECTURE)
    _describe(writer, config, layer)
    writer.add_file_type(LlamaFileType.ALL_F32)
    packaged_models.copy_gguf_keys(GGUFReader(target), writer, lambda key: key.startswith("tokenizer."))
    for name, tensor in named.items():
        writer.add_tensor(f"{NAMES[name]}.weight", tensor.contiguous().numpy())
    writer.add_tensor("d2t", distances.numpy() + np.arange(len(distances)))
    packaged_models.write_gguf(writer)
    return out


def _neighbours(matrix: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows i and i + half of each attention head, side by side."""
    return matrix.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def _describe(writer: Any, config: dict[str, Any], layer: dict[str, Any]) -> None:
    writer.add_block_count(layer["num_hidden_layers"])
    writer.add_context_length(layer["max_position_embeddings"])
    writer.add_vocab_size(layer["vocab_size"])
    writer.add_embedding_length(layer["hidden_size"])
    writer.add_feed_forward_length(layer["intermediate_size"])
    writer.add_head_count(layer["num_attention_heads"])
    writer.add_head_count_kv(layer["num_key_value_heads"])
    writer.add_key_length(layer["head_dim"])
    writer.add_value_length(layer["head_dim"])
    writer.add_rope_dimension_count(layer["head_dim"])
    writer.add_rope_freq_base(layer["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(layer["rms_norm_eps"])
    writer.add_array(f"{ARCHITECTURE}.target_layers", config["eagle_aux_hidden_state_layer_ids"])
    target_size = config["target_hidden_size"] or layer["hidden_size"]
    writer.add_uint32(f"{ARCHITECTURE}.target_hidden_size", target_size)
    for key in ("norm_before_residual", "norm_before_fc"):
        writer.add_bool(f"{ARCHITECTURE}.{key}", config[key])
