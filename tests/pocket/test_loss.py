"""The loss of packed rows: no example sees another, and what weighs nothing does not count."""

import torch

from pocket import loss, target
from tiny import TINY


def test_no_example_sees_another_and_none_its_future():
    segments = torch.tensor([[0, 0, 1, 1, -1]])
    open_ = loss.attention_mask(segments)[0, 0]
    want = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    assert open_.int().tolist() == want


def test_a_packed_example_gives_the_logits_it_gives_alone():
    model = target.new_model(TINY).eval()
    ids, positions = torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([[0, 1, 0, 1, 2]])
    mask = loss.attention_mask(torch.tensor([[0, 0, 1, 1, 1]]))
    with torch.inference_mode():
        packed = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[0]
        alone = [model(input_ids=part).logits[0] for part in (ids[:, :2], ids[:, 2:])]
    torch.testing.assert_close(packed, torch.cat(alone), atol=1e-5, rtol=1e-4)


def test_the_loss_ignores_what_weighs_nothing():
    model = target.new_model(TINY)
    ids = torch.tensor([[5, 6, 7, 8]])
    mask = loss.attention_mask(torch.zeros_like(ids))
    weights = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    losses = [
        loss.weighted_loss(model, ids, mask, torch.arange(4)[None], torch.tensor([[6, 7, *tail]]), weights)
        for tail in ((1, -100), (3, -100))
    ]
    assert losses[0] == losses[1] > 0
