"""The Learner interface, the optimizer of a learner, and how a learner reads the observations of a batch.

The registry has an algorithm as a class with `Config` (the dataclass of `algo.*`, whose field `name` is the
algorithm's), `network` and `build`; `PPO` and `OffPolicy` show them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from slipstream.config import registry
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation, Spec
from slipstream.models.encoders import Specs
from slipstream.models.memory import memory_size
from slipstream.models.policy import build_own_policy

Gradients = Sequence[Tensor | None]  # one per parameter of the policy, None where it has none
Average = Callable[..., None]
Sums = Callable[[Sequence[Tensor | None]], list[Any]]
PIECE = 8192  # numbers of a weight that one block of a captured Adam takes


class Learner(ABC):
    """Improves a policy from collected rollouts.

    Nothing in `update` waits for the device: metrics are tensors on it.
    """

    # Whether the update may be compiled and captured as a CUDA graph, by the contract of `capture_training`.
    supports_capture: ClassVar[bool] = False
    is_off_policy: ClassVar[bool] = False  # learns from data of any age
    reads_minibatches: ClassVar[bool] = False  # takes any `ObservationSource`, so batches may be compressed
    supports_memory: ClassVar[bool] = False  # learns from sequences, so the policy may have a memory
    scheduled_settings: ClassVar[tuple[str, ...]] = ()  # of `config`: those that may change between two updates
    supports_mirror: ClassVar[bool] = False  # trains an actor-critic, which may be mirrored

    policy: Any
    config: Any
    device: torch.device
    generator: torch.Generator | None = None  # what minibatches are drawn from; None: torch's global one
    # Of a training in several processes: `average(tensors, weight)` replaces tensors in place by their mean over all
    # processes, weighted by `weight` [] if it is given; `sums(tensors)` returns their sums (None for None),
    # valid until the next call with these shapes. The gradients of each step are exchanged before they are clipped.
    average: Average | None = None
    sums: Sums | None = None
    data: Mapping[tuple[str, ...], Tensor] | None = None  # stored frames [M, ...] to learn from instead of the env's
    rank_keys: ClassVar[tuple[str, ...]] = ()  # entries of `state_dict` that each process has its own of

    @abstractmethod
    def update(self, batch: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """Learn from one batch.

        Args:
            batch: a `Rollout` in a training; or a batch [N, T], as users get it from a collector (`Rollout.of`).
            progress: Share of the run that is done, 0 to 1; drives the schedules.

        Returns:
            Metrics by name: scalars on the device.
        """

    def train(self, batch: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """Learn from one batch, as `update` does. NavRL's training loop calls this name."""
        return self.update(batch, progress)

    def networks(self) -> Iterable[nn.Module]:
        """Return all networks whose weights must be equal in all processes of a training."""
        return [self.policy]

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next updates depend on."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""

    def bind(self, env: TensorEnv) -> None:  # noqa: B027 (most need nothing else)
        """Prepare for the batches of an env. Called once, before the first of them."""

    def check_batch(self, frames: int) -> None:  # noqa: B027 (most take any)
        """Raise ValueError if batches of `frames` frames cannot be learned from."""

    def startup_message(self, frames_per_batch: int, total_frames: int) -> str:
        """Return a line that a run prints before its first iteration, about its sizes; empty if there is none."""
        return ""

    def seed_minibatches(self, seed: int) -> None:
        """Draw minibatches from a generator of this learner's own: a collector beside it draws from the global one."""
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def gauges(self) -> dict[str, Callable[[], float]]:
        """Return what a monitor should watch, in MB by name: memory that grows on purpose."""
        return {}

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Free threads and files."""


def build_network(settings: Mapping[str, Any], observation_spec: Specs, action_spec: Spec, model: Any) -> Any:
    """Return the network that the algorithm of these settings (`algo.*`) trains, or that of `model.policy`."""
    algorithm = registry.find("algorithm", settings["name"])
    if model.memory != "none":
        _check_memory(algorithm, settings["name"], f"model.memory={model.memory}")
    if model.mirror and not getattr(algorithm, "supports_mirror", False):
        raise ValueError(f"model.mirror=true needs algo=ppo or algo=bc, not algo={settings['name']}: leave it out")
    if model.policy != "auto":
        return build_own_policy(observation_spec, action_spec, model)
    return algorithm.network(observation_spec, action_spec, model, settings)


def build_learner(policy: Any, config: Any, observation_spec: Specs, seed: int, fresh: bool = True) -> Learner:
    """Return the learner of the algorithm that `config` belongs to.

    Args:
        fresh: False if the policy starts from weights that were learned before.
    """
    algorithm = registry.find("algorithm", config.name)
    if memory_size(policy):
        _check_memory(algorithm, config.name, f"the memory of {type(policy).__name__}")
    return algorithm.build(policy, config, observation_spec, seed, fresh)


def _check_memory(algorithm: Any, name: str, asked: str) -> None:
    """Raise ValueError if an algorithm cannot train a policy with memory."""
    if not getattr(algorithm, "supports_memory", False):
        raise ValueError(f"{asked} needs algo=ppo or algo=bc: algo={name} learns from single steps; leave it out")


def check_policy(policy: Any, algorithm: str, base: type[nn.Module], *needs: str) -> None:
    """Raise TypeError if a policy lacks a method or attribute that an algorithm uses; `base` has all of them."""
    missing = [name for name in ("parameters", "forward", *needs) if not hasattr(policy, name)]
    if missing:
        raise TypeError(
            f"{algorithm} cannot train {type(policy).__name__}, which has no {', '.join(missing)}: subclass "
            f"{base.__module__}.{base.__name__}, which has them (docs/your-own-network.md)"
        )


def check_name(config: Any) -> None:
    """Raise ValueError if `config.name` is another algorithm's than that of its class."""
    own = type(config).name
    if config.name != own:
        raise ValueError(
            f"algo.name is '{config.name}', these are the settings of {own}: choose with algo={config.name}"
        )


# -- the optimizer -----------------------------------------------------------------------------------------------------


def make_adam(parameters: Iterable[nn.Parameter], rate: Tensor | float) -> torch.optim.Adam:
    """Return an Adam of one fused kernel. A captured update follows a rate that is a tensor."""
    parameters = list(parameters)
    return torch.optim.Adam(parameters, lr=rate, fused=True, capturable=parameters[0].is_cuda)


def apply_gradients(optimizer: torch.optim.Optimizer, gradients: Gradients) -> None:
    """Take one step of `optimizer` with a gradient per parameter."""
    for parameter, gradient in zip(optimizer.param_groups[0]["params"], gradients, strict=True):
        # The fused Adam reads both in the order of memory: on a CPU it would mix up the elements, on a GPU it raises.
        if gradient is not None and gradient.stride() != parameter.stride():
            gradient = torch.empty_like(parameter).copy_(gradient)
        parameter.grad = gradient
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        step_in_pieces(optimizer)
    else:
        optimizer.step()


@torch.no_grad()
def step_in_pieces(optimizer: Any) -> None:
    """Take a step of a fused Adam that has moments, with all tensors cut to `PIECE` numbers: the same result, sooner.

    One block of torch's kernel takes 65,536 numbers, so that few blocks have work in small networks.
    """
    group = optimizer.param_groups[0]
    beta1, beta2 = group["betas"]
    gate = {name: getattr(optimizer, name, None) for name in ("grad_scale", "found_inf")}
    held = [(p, p.grad, optimizer.state[p]) for p in group["params"] if p.grad is not None]
    steps = [state["step"] for _, _, state in held]
    pieces: list[tuple[Tensor, ...]] = []
    for parameter, gradient, state in held:
        tensors = (parameter, gradient, state["exp_avg"], state["exp_avg_sq"])
        cut = (x.view(-1).split(PIECE) if parameter.is_contiguous() else (x,) for x in tensors)
        pieces += ((*piece, state["step"]) for piece in zip(*cut, strict=True))
    *lists, piece_steps = (list(x) for x in zip(*pieces, strict=True))
    torch._foreach_add_(steps, 1)
    settings = {name: group[name] for name in ("lr", "weight_decay", "eps", "amsgrad", "maximize")} | gate
    torch._fused_adam_(*lists, [], piece_steps, beta1=beta1, beta2=beta2, **settings)  # type: ignore[call-overload]
    if gate["found_inf"] is not None:  # a step that was skipped does not count
        torch._foreach_sub_(steps, [gate["found_inf"]] * len(steps))


def load_adam(optimizer: torch.optim.Optimizer, state: Mapping[int, Mapping[str, Tensor]]) -> None:
    """Copy the moments of `state`, in place if there are some: a captured update holds on to these tensors."""
    held = optimizer.state_dict()
    if held["state"].keys() == state.keys():
        for i, moments in state.items():
            for name, value in moments.items():
                held["state"][i][name].copy_(value)
        return
    rates = [group["lr"] for group in optimizer.param_groups]  # a load copies the groups; a rate must stay its tensor
    copies = {i: {name: value.clone() for name, value in moments.items()} for i, moments in state.items()}
    optimizer.load_state_dict({"state": copies, "param_groups": held["param_groups"]})
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


# -- observations of a batch, minibatch by minibatch -----------------------------------------------------------------


class ObservationSource(Protocol):
    """Observations of a batch as rows [T * N, ...] that are opened a minibatch at a time."""

    def minibatches(self, order: Tensor | None, count: int, keys: Iterable[str]) -> Iterator[Observation]:
        """Yield the rows in `order` (as they are for None) in `count` parts, with the observations `keys` only."""


class TensorSource:
    """An `ObservationSource` of plain tensors: shuffled once per epoch, one gather per key, then cut."""

    def __init__(self, observation: Mapping[str, Tensor]) -> None:
        """Take observations [T, N, ...]."""
        self.rows = {name: x.flatten(0, 1) for name, x in observation.items()}

    def minibatches(self, order: Tensor | None, count: int, keys: Iterable[str]) -> Iterator[Observation]:
        """Yield the rows in `order` in `count` parts."""
        wanted = [name for name in self.rows if name in keys]
        for parts in zip(*(in_order(self.rows[name], order).chunk(count) for name in wanted), strict=True):
            yield dict(zip(wanted, parts, strict=True))


def observation_source(observation: Any) -> ObservationSource:
    """Return the observations of a batch as a source of minibatches; they may be one already."""
    return observation if hasattr(observation, "minibatches") else TensorSource(observation)


def in_order(x: Tensor, order: Tensor | None) -> Tensor:
    """Return the rows of `x` in `order`; as they are for None."""
    return x if order is None else x.index_select(0, order)
