"""Muon in float32 does what torch's does, without its rounding."""

import pytest
import torch

from pocket.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (8, 8)])
def test_singular_values_come_near_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(3, *shape)))
    assert values.shape == (3, 8)
    assert ((values > 0.4) & (values < 1.4)).all()


def test_matrices_are_made_orthogonal_each_for_itself():
    torch.manual_seed(0)
    one, two = torch.randn(2, 6, 9)
    both = orthogonalised(torch.stack([one, 100 * two]))
    torch.testing.assert_close(both[0], orthogonalised(one[None])[0])
    torch.testing.assert_close(both[1], orthogonalised(two[None])[0])


def test_steps_are_torchs_up_to_its_rounding():
    torch.manual_seed(0)
    start, grads = torch.randn(12, 5), torch.randn(4, 12, 5)
    ends = []
    for muon in (Muon, torch.optim.Muon):
        p = torch.nn.Parameter(start.clone())
        optimizer = muon([p], lr=0.1, momentum=0.95, weight_decay=0.01)
        for grad in grads:
            p.grad = grad.clone()
            optimizer.step()
        ends.append(p.detach())
    moved = (ends[1] - start).norm()
    assert (ends[0] - ends[1]).norm() < 0.02 * moved


def test_workers_share_the_matrices_and_the_steps_are_the_same():
    torch.manual_seed(0)
    start, grads, ends = torch.randn(5, 6, 9), torch.randn(5, 6, 9), []
    for workers in (1, 2, 7):
        params = [torch.nn.Parameter(matrix.clone()) for matrix in start]
        for p, grad in zip(params, grads, strict=True):
            p.grad = grad.clone()
        Muon(params, lr=0.1, workers=workers).step()
        ends.append(torch.stack([p.detach() for p in params]))
    torch.testing.assert_close(ends[1], ends[0])
    torch.testing.assert_close(ends[2], ends[0])


def test_a_stack_steps_as_its_matrices_do():
    torch.manual_seed(0)
    start, grads = torch.randn(4, 6, 9), torch.randn(4, 6, 9)
    stack, *matrices = params = [torch.nn.Parameter(m.clone()) for m in (start, *start)]
    for p, grad in zip(params, (grads, *grads), strict=True):
        p.grad = grad.clone()
    Muon(params, lr=0.1, workers=2).step()
    torch.testing.assert_close(stack.detach(), torch.stack([m.detach() for m in matrices]))
