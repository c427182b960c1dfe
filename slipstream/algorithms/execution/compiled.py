"""A function with its gradients as one compiled graph.

`torch.compile` alone compiles the forward and the backward pass apart and leaves what follows (clipping) to eager kernels. Traced
to plain operations first, everything between the minibatch and the optimiser is one graph, in which kernels fuse freely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from slipstream.algorithms.execution.verify import TrustedGradients

# Many kernels are small and independent of one another (casts of weights, sums of biases): sharing launches makes an update a
# third faster. The compiler is not sound at it for every graph: the second try goes without.
TRIES: tuple[dict[str, Any], ...] = ({"combo_kernels": True}, {})
# Lists of tensors are gone through one by one: of the kernel that would go through a list at once torch 2.11 makes one block read the
# gradients' norm while another still writes it (the critic's weights then got their gradient times whatever stood there before).
_ONE_BY_ONE: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._foreach_mul.Tensor: lambda tensors, factor: [x * factor for x in tensors],
    torch.ops.aten._foreach_norm.Scalar: lambda tensors, order=2: [torch.linalg.vector_norm(x, order) for x in tensors],
}


def compiled(fn: Callable[[Any], Any], module: nn.Module, tell: Callable[[str], None] = print) -> Callable[[Any], Any]:
    """`fn(rows)`, which takes gradients of `module.parameters()`, compiled for the shapes it is called with.

    `fn` gives the gradients and facts about them. It must change nothing, so that a failed compilation can be tried again; where none
    succeeds it is called as it is.
    """
    holder = _Holder(fn, module)
    names = [f"module.{name}" for name, _ in module.named_parameters()]
    programs: dict[tuple[Any, ...], TrustedGradients] = {}

    def with_parameters(parameters: list[Tensor], rows: Any) -> Any:
        return functional_call(holder, dict(zip(names, parameters, strict=True)), (rows,))

    def candidates(rows: Any) -> Iterator[Callable[[Any], Any]]:
        leaves = [p.detach().requires_grad_() for p in module.parameters()]
        traced = make_fx(with_parameters, decomposition_table=_ONE_BY_ONE)(leaves, rows)
        del leaves, rows  # a second try may never come
        for options in TRIES:
            yield _without_gradients(torch.compile(traced, dynamic=False, options=options), module)

    def call(rows: Any) -> Any:
        kinds = tuple((x.shape, x.dtype) for x in tree_leaves(rows))
        if kinds not in programs:
            programs[kinds] = TrustedGradients(fn, candidates(rows), tell)
        return programs[kinds](rows)

    return call


def _without_gradients(program: Callable[..., Any], module: nn.Module) -> Callable[[Any], Any]:
    """`program` of the present parameters and the rows: its gradients are its result."""

    def run(rows: Any) -> Any:
        with torch.no_grad():
            return program(list(module.parameters()), rows)

    return run


class _Holder(nn.Module):
    """Gives `functional_call` a module to swap the parameters of, and `fn` to call meanwhile."""

    def __init__(self, fn: Callable[[Any], Any], module: nn.Module) -> None:
        super().__init__()
        self.fn, self.module = fn, module

    def forward(self, rows: Any) -> Any:
        return self.fn(rows)
