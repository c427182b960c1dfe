"""Compile gradients and env steps with torch.compile; each program is verified before it is used (`verify.py`).

`torch.compile` alone compiles the forward and the backward pass separately and leaves the clipping to eager kernels.
`compile_gradients` traces all operations between the minibatch and the optimizer into one graph first, so that kernels
fuse across them.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from slipstream.algorithms.execution.verify import VerifiedGradients, VerifiedStep
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Step

# Lists of tensors are processed one by one: in torch 2.11's kernel for a complete list one block reads the gradients'
# norm while another still writes it (the critic's gradient was then multiplied with stale memory).
_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._foreach_mul.Tensor: lambda tensors, factor: [x * factor for x in tensors],
    torch.ops.aten._foreach_norm.Scalar: lambda tensors, order=2: [torch.linalg.vector_norm(x, order) for x in tensors],
}


def compile_options() -> tuple[dict[str, Any], ...]:
    """Return the options of torch.compile for the first and the second attempt.

    Combo kernels share launches between many small independent kernels (casts of weights, sums of biases): an update
    becomes a third faster. Inductor does not compile them correctly for every graph, so the second attempt disables
    them. A step with bf16 enters autocast, whose arguments are constants of the graph: marked as cacheable, a step that
    was compiled before is not lowered again (7 s instead of 14 for the preset h200).
    """
    cacheable = {f"torch.amp.autocast_mode.{name}": "1" for name in ("_enter_autocast", "_exit_autocast")}
    shared = {"unsafe_marked_cacheable_functions": cacheable}
    return {"combo_kernels": True, **shared}, shared


def compile_gradients(
    fn: Callable[[Any], Any], module: nn.Module, log: Callable[[str], None] = print, **more: Any
) -> Callable[[Any], Any]:
    """Compile `fn(rows)`, which takes gradients of `module.parameters()`, once per set of input shapes.

    Args:
        fn: returns the gradients and a tensor of diagnostics. It must not change any state, because a failed
            compilation is repeated.
        module: the module that owns the parameters.
        log: receives one line per failed compilation. If all fail, `fn` runs eagerly.
        more: options of torch.compile besides `compile_options`.
    """
    holder = _Holder(fn, module)
    names = [f"module.{name}" for name, _ in module.named_parameters()]
    programs: dict[tuple[Any, ...], VerifiedGradients] = {}

    def with_parameters(parameters: list[Tensor], rows: Any) -> Any:
        return functional_call(holder, dict(zip(names, parameters, strict=True)), (rows,))

    def candidates(rows: Any) -> Iterator[Callable[[Any], Any]]:
        leaves = [p.detach().requires_grad_() for p in module.parameters()]
        traced = make_fx(with_parameters, decomposition_table=_DECOMPOSITIONS)(leaves, rows)
        del leaves, rows  # the generator may stay suspended for the rest of the run
        for options in compile_options():
            program = torch.compile(traced, dynamic=False, options={**options, **more})
            yield torch.no_grad()(lambda rows, program=program: program(list(module.parameters()), rows))

    def call(rows: Any) -> Any:
        shapes = tuple((x.shape, x.dtype) for x in tree_leaves(rows))
        if shapes not in programs:
            programs[shapes] = VerifiedGradients(fn, candidates(rows), log)
        return programs[shapes](rows)

    return call


def compile_update(learner: Any, log: Callable[[str], None] = print) -> None:
    """Fuse the kernels of `learner.gradients`: the loss, its gradient and the clipping; with several processes those of
    `learner.clip_sums` as well. The first update then takes most of a minute."""
    learner.gradients = compile_gradients(learner.gradients, learner.policy, log)
    # All processes must clip alike: by default each measures which order of a sum is the fastest.
    if learner.sums is not None:
        learner.clip_sums = compile_gradients(learner.clip_sums, learner.policy, log, deterministic=True)


class _Holder(nn.Module):
    """Let `functional_call` replace the parameters of `module` while `fn` runs."""

    def __init__(self, fn: Callable[[Any], Any], module: nn.Module) -> None:
        super().__init__()
        self.fn, self.module = fn, module

    def forward(self, rows: Any) -> Any:
        return self.fn(rows)


def compile_step(step: Step, env: TensorEnv, log: Callable[[str], None]) -> Step:
    """Compile a step of `env` if it can be verified: the env must name all tensors that a step changes."""
    if not env.supports_state_restore:
        log("the env's step is not compiled: state_names does not name all of its state, so it could not be verified")
        return step
    programs = (torch.compile(step, dynamic=False, options=options) for options in compile_options())
    return VerifiedStep(step, programs, env, log)


def use_compiler_cache(device: torch.device) -> None:
    """Keep compiled kernels in the user's cache folder, by device and versions. By default torch keeps them in /tmp.

    The user's own TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR are kept.
    """
    from torch._inductor.runtime.runtime_utils import default_cache_dir

    given = [Path(os.environ[name]) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR") if name in os.environ]
    try:
        # torch writes its default into the environment as soon as its compiler is imported
        if not all(path.is_relative_to(default_cache_dir()) for path in given):
            return
        triton = f"-triton{import_module('triton').__version__}" if importlib.util.find_spec("triton") else ""
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        own = re.sub(r"[^\w.+-]+", "_", f"{name}-torch{torch.__version__}{triton}")
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slipstream" / "compiler" / own
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError, KeyError, ImportError):  # no name of the user, or no home that can be written
        return
    if os.access(folder, os.W_OK):
        os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = str(folder), str(folder / "triton")
