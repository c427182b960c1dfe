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

from slipstream.algo.trust import compare_gradients, first_line, is_compilers

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

    `fn` gives the gradients and something more. It must change nothing, so that a failed compilation can be tried again; where none
    succeeds it is called as it is.
    """
    holder = _Holder(fn, module)
    names = [f"module.{name}" for name, _ in module.named_parameters()]
    programs: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def with_parameters(parameters: list[Tensor], rows: Any) -> Any:
        return functional_call(holder, dict(zip(names, parameters, strict=True)), (rows,))

    def call(rows: Any) -> Any:
        parameters: list[Tensor] = list(module.parameters())
        shapes = tuple(x.shape for x in tree_leaves(rows))
        if shapes not in programs:
            programs[shapes] = build(parameters, rows)
        with torch.no_grad():
            return programs[shapes](parameters, rows)

    def trace(parameters: list[Tensor], rows: Any, table: dict[Any, Any] | None) -> Callable[..., Any]:
        return make_fx(with_parameters, decomposition_table=table)([p.detach().requires_grad_() for p in parameters], rows)

    def build(parameters: list[Tensor], rows: Any) -> Callable[..., Any]:
        plain, source = trace(parameters, rows, None), trace(parameters, rows, _ONE_BY_ONE)
        for options in TRIES:
            program = torch.compile(source, dynamic=False, options=options)
            try:
                with torch.no_grad():
                    compare_gradients(program(parameters, rows)[0], plain(parameters, rows)[0])
                return program
            except Exception as error:
                if not is_compilers(error):
                    raise
                tell(f"the update cannot be compiled ({first_line(error)}): another form is tried, which is slower")
        return plain

    return call


class _Holder(nn.Module):
    """Gives `functional_call` a module to swap the parameters of, and `fn` to call meanwhile."""

    def __init__(self, fn: Callable[[Any], Any], module: nn.Module) -> None:
        super().__init__()
        self.fn, self.module = fn, module

    def forward(self, rows: Any) -> Any:
        return self.fn(rows)
