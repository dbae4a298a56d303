"""Muon in float32, equal shapes together: torch's own works in bfloat16, which many processors emulate."""

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5


def orthogonalised(matrices: torch.Tensor) -> torch.Tensor:
    """Each of `matrices` [n, rows, columns] with its singular values brought near 1 (Newton-Schulz, quintic).

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/, the coefficients too.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal: every direction of a matrix is learnt at the same speed."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        workers: int = 1,
    ):
        """`workers` threads share the matrices of a shape."""
        self._workers, self._pool = workers, ThreadPoolExecutor(workers)
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        """Take one step with Nesterov's momentum.

        Every parameter is a matrix, or a stack of them [n, rows, columns], and must have a gradient.
        """
        for group in self.param_groups:
            shapes = defaultdict(list)
            for p in group["params"]:
                shapes[p.shape].append(p)
            for shape, params in shapes.items():
                moved = torch.stack([self._momentum(p, group["momentum"]) for p in params])
                parts = moved.view(-1, *shape[-2:]).chunk(self._workers)
                updates = torch.cat([*self._pool.map(orthogonalised, parts)]).view_as(moved)
                rate = group["lr"] * max(1.0, shape[-2] / shape[-1]) ** 0.5
                for p, update in zip(params, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-rate)

    def _momentum(self, p: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
        buffer.lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(buffer, momentum)
