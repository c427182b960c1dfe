"""How a training iteration is captured: the rollout as one CUDA graph, the whole update as another.

Both are wrapped here, from outside: what users read in collect/ and algo/ stays plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tensordict import TensorDictBase
from torch import Tensor

from slipstream.algo.graphs import Captured, HostSynchronisation
from slipstream.algo.ppo import PPO

Collect = Callable[[], TensorDictBase]
Learn = Callable[[TensorDictBase, float], dict[str, Tensor]]


class Collector(Protocol):
    """What capture needs of a collector: `SyncDataCollector` has it."""

    def rollout(self, check: bool = True) -> TensorDictBase:
        """The next batch."""

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Lets `capture` wrap the device's work of a rollout."""


def capture_training(collector: Collector, algo: PPO, mode: str, tell: Callable[[str], None]) -> tuple[Collect, Learn]:
    """`collect()` and `learn(batch, progress)`: plain (off), as CUDA graphs (auto), or with compiled kernels in them too (on).

    The collector must write every batch to the same memory (`return_same_td=True, ring_size=1`), from which the update reads.
    """

    def collect() -> TensorDictBase:
        return collector.rollout(check=False)

    if mode == "off" or algo.device.type != "cuda":
        if mode == "on":
            raise ValueError("compile=on needs a CUDA device; use compile=auto or compile=off here")
        return collect, algo.update
    if mode == "on":
        tell("compiling the update: the first iterations take about 40 s, then it runs 1.7 times faster")
        algo.compile()
    collector.capture_with(lambda fill: Captured(fill, "the rollout", tell))
    current: dict[str, Any] = {}
    update = Captured(lambda: algo.learn(algo.prepare(current["batch"])), "the update", tell)

    def collect_again() -> TensorDictBase:
        try:
            return collect()
        except HostSynchronisation:  # the rehearsal broke off half way: the collector starts anew, plainly this time
            return collect()

    def learn(batch: TensorDictBase, progress: float) -> dict[str, Tensor]:
        algo.set_progress(progress)
        current["batch"] = batch
        return update()

    return collect_again, learn
