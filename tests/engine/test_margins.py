"""What a real server says of two tokens is what its weights say."""

import pytest

from specbook.bench import greedy

pytestmark = pytest.mark.engine


def test_a_servers_margin_is_the_models_own(server, target):
    import torch
    from transformers import AutoModelForCausalLM

    answer = greedy.ask(server, "x = 1\nx = 1\nx =", 4)
    context = (*answer.prompt_token_ids, *answer.token_ids[:2])
    model = AutoModelForCausalLM.from_pretrained(target.model, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = model(torch.tensor([context]), logits_to_keep=1).logits[0, -1]
    first, second = logits.topk(2).indices.tolist()
    for other in (second, int(logits.argmin())):
        want = float(logits[first] - logits[other])
        got = greedy.margin_logits(server, context, first, other)
        assert got == pytest.approx(want, abs=0.1, rel=0.01)
        assert greedy.margin_logits(server, context, other, first) == -got
