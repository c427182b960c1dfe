"""How a training iteration is captured: the rollout as one CUDA graph, the whole update as another.

Both are wrapped here, from outside: what users read in collect/ and algo/ stays plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from slipstream.algo.graphs import Captured, HostSynchronisation
from slipstream.algo.ppo import PPO

Collect = Callable[[], TensorDictBase]
Learn = Callable[[TensorDictBase, float], dict[str, Tensor]]


def capture_training(collector: Any, algo: PPO, mode: str, tell: Callable[[str], None]) -> tuple[Collect, Learn]:
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
        algo.loss = torch.compile(algo.loss, dynamic=False)  # type: ignore[method-assign]
    fill = Captured(lambda: collector_fill(0), "the rollout", tell)
    collector_fill = collector._fill
    collector._fill = lambda slot: fill()

    def careful_collect() -> TensorDictBase:
        try:
            return collect()
        except HostSynchronisation:  # the rollout broke off half way; the collector starts it anew, plainly this time
            return collect()

    current: dict[str, Any] = {}
    update = Captured(lambda: algo.learn(algo.prepare(current["batch"])), "the update", tell)

    def learn(batch: TensorDictBase, progress: float) -> dict[str, Tensor]:
        algo.set_progress(progress)
        current["batch"] = batch
        return update()

    torch.cuda.synchronize()
    return careful_collect, learn
