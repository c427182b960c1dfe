"""The Learner interface, and how a learner reads the observations of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from slipstream.config import registry
from slipstream.envs.specs import Observation, Spec

Gradients = Sequence[Tensor | None]  # one per parameter of the policy, None where it has none


class Learner(ABC):
    """Improves a policy from collected batches [N, T].

    Nothing in `update` waits for the device: metrics are tensors on it.
    A batch of a recurrent policy holds `("recurrent", name)` [N, ...], the policy's state before the first step of each
    row; such a learner sets `recurrent` and keeps the T steps of a row together.
    """

    on_policy: ClassVar[bool] = True  # learns from each batch once; otherwise from a replay buffer
    # Whether execution/ may compile `gradients(rows)` and capture `learn(prepare(batch))`, after
    # `set_progress(progress)`, as a CUDA graph.
    supports_capture: ClassVar[bool] = False
    reads_minibatches: ClassVar[bool] = False  # takes any `ObservationSource`, so batches may be compressed
    recurrent: ClassVar[bool] = False

    policy: Any
    config: Any
    device: torch.device
    generator: torch.Generator | None = None  # what minibatches are drawn from; None: torch's global one
    # Called with the gradients of each step, between backward and the optimizer: reduces them in place over processes.
    reduce_gradients: Callable[[Gradients], None] | None = None

    @abstractmethod
    def update(self, batch: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """Learn from one batch.

        Args:
            batch: [N, T], as a collector returns it.
            progress: Share of the run that is done, 0 to 1; drives the schedules.

        Returns:
            Metrics by name: scalars on the device.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next updates depend on."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""

    def check_batch(self, frames: int) -> None:  # noqa: B027 (most take any)
        """Raise ValueError if batches of `frames` frames cannot be learned from."""

    def seed_minibatches(self, seed: int) -> None:
        """Draw minibatches from a generator of this learner's own: a collector beside it draws from the global one."""
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def gauges(self) -> dict[str, Callable[[], float]]:
        """Return what a monitor should watch, in MB by name: memory that grows on purpose."""
        return {}

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Free threads and files."""


class Algorithm(Protocol):
    """The class that the registry has under an algorithm's name."""

    Config: ClassVar[type[Any]]  # the dataclass of `algo.*`; its field `name` is the algorithm's

    @classmethod
    def build_policy(
        cls, observation_spec: Mapping[str, Spec], action_spec: Spec, model: Any, settings: Mapping[str, Any]
    ) -> Any:
        """Return the network that this algorithm trains; `settings` are those of `algo.*`."""

    @classmethod
    def build(cls, policy: Any, config: Any, observation_spec: Mapping[str, Spec], seed: int, fresh: bool) -> Learner:
        """Return the learner of `policy`; one that is not `fresh` starts from weights that were learned before."""


def build_policy(
    settings: Mapping[str, Any], observation_spec: Mapping[str, Spec], action_spec: Spec, model: Any
) -> Any:
    """Return the network that the algorithm of these settings (`algo.*`) trains."""
    algorithm: type[Algorithm] = registry.find("algorithm", settings["name"])
    return algorithm.build_policy(observation_spec, action_spec, model, settings)


def build_learner(
    policy: Any, config: Any, observation_spec: Mapping[str, Spec], seed: int, fresh: bool = True
) -> Learner:
    """Return the learner of the algorithm that `config` belongs to."""
    algorithm: type[Algorithm] = registry.find("algorithm", config.name)
    return algorithm.build(policy, config, observation_spec, seed, fresh)


# -- observations of a batch, minibatch by minibatch -----------------------------------------------------------------


class ObservationSource(Protocol):
    """Observations of a batch as rows [T * N, ...] that are opened a minibatch at a time."""

    def minibatches(self, order: Tensor | None, count: int, keys: Iterable[str]) -> Iterator[Observation]:
        """Yield the rows in `order` (as they are for None) in `count` parts, with the observations `keys` only."""


class TensorSource:
    """An `ObservationSource` of plain tensors: shuffled once per epoch, one gather per key, then cut."""

    def __init__(self, observation: Mapping[str, Tensor]) -> None:
        """Take observations [N, T, ...]; collectors store them time-major, so flattening copies nothing."""
        self.rows = {name: x.transpose(0, 1).flatten(0, 1) for name, x in observation.items()}

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
