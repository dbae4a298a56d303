"""A target that trains in seconds."""

from pocket.target import TargetRecipe

TINY = TargetRecipe(
    num_hidden_layers=2, hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1,
    head_dim=16, rows=2, row_tokens=256, steps=12, warmup_steps=2, start=None,
)  # fmt: skip
