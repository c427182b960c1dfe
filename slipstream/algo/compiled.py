"""A function with its gradients as one compiled graph.

`torch.compile` alone compiles the forward and the backward pass apart and leaves what follows (clipping) to eager kernels. Traced
to plain operations first, everything between the minibatch and the optimiser is one graph, in which kernels fuse freely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

# Many kernels are small and independent of one another (casts of weights, sums of biases): they share launches.
OPTIONS: dict[str, Any] = {"combo_kernels": True}


def compiled(fn: Callable[[Any], Any], module: nn.Module, options: dict[str, Any] | None = None) -> Callable[[Any], Any]:
    """`fn(rows)`, which takes gradients of `module.parameters()`, compiled for the shapes it is called with."""
    holder = _Holder(fn, module)
    names = [f"module.{name}" for name, _ in module.named_parameters()]
    programs: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def with_parameters(parameters: list[Tensor], rows: Any) -> Any:
        return functional_call(holder, dict(zip(names, parameters, strict=True)), (rows,))

    def call(rows: Any) -> Any:
        parameters = list(module.parameters())
        shapes = tuple(x.shape for x in tree_leaves(rows))
        if shapes not in programs:
            traced = make_fx(with_parameters)([p.detach().requires_grad_() for p in parameters], rows)
            programs[shapes] = torch.compile(traced, dynamic=False, options=OPTIONS if options is None else options)
        with torch.no_grad():
            return programs[shapes](parameters, rows)

    return call


class _Holder(nn.Module):
    """Gives `functional_call` a module to swap the parameters of, and `fn` to call meanwhile."""

    def __init__(self, fn: Callable[[Any], Any], module: nn.Module) -> None:
        super().__init__()
        self.fn, self.module = fn, module

    def forward(self, rows: Any) -> Any:
        return self.fn(rows)
