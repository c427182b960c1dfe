"""StoredDataCollector: batches of stored frames instead of flown ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from slipstream.collectors.sync import SyncDataCollector
from slipstream.envs.base import TensorEnv
from slipstream.envs.rollout import Rollout
from slipstream.sim.random import restore_generator


class StoredDataCollector(SyncDataCollector):
    """Draw batches [num_envs, T] of stored frames at random, each as likely as any other; the env is not stepped.

    Every batch has the same memory: clone what you keep.

    Args:
        env: says how many frames a batch has.
        policy: the policy that learns.
        frames_per_batch: num_envs × T.
        data: flat tensors [M, ...] by key, such as ("observation", "state") and ("action",).
        seed: of the draws.
    """

    def __init__(
        self, env: TensorEnv, policy: Any, frames_per_batch: int, data: Mapping[tuple[str, ...], Tensor], seed: int
    ) -> None:
        super().__init__(env, policy, frames_per_batch, return_same_td=True)
        self._data = dict(data)
        self._generator = torch.Generator(env.device).manual_seed(seed)
        self._drawn = {
            key: torch.empty(frames_per_batch, *x.shape[1:], dtype=x.dtype, device=x.device) for key, x in data.items()
        }
        rows = {key: x.view(self._steps, env.num_envs, *x.shape[1:]) for key, x in self._drawn.items()}
        valid = torch.ones(self._steps, env.num_envs, dtype=torch.bool, device=env.device)
        self._rollout = Rollout.of_rows({**rows, ("valid",): valid})

    def collect_rollout(self, check: bool = True) -> Rollout:
        """Draw the next batch."""
        self._raise_if_closed()
        count = len(next(iter(self._data.values())))
        shape, device = (self.frames_per_batch,), self.env.device
        rows = torch.randint(count, shape, generator=self._generator, device=device)
        for key, x in self._data.items():
            torch.index_select(x, 0, rows, out=self._drawn[key])
        self._frames += self.frames_per_batch
        return self._rollout

    def state_dict(self) -> dict[str, Any]:
        """Return what the next draws depend on, except the data."""
        return {"frames": self._frames, "generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""
        restore_generator(self._generator, state["generator"], "stored frames")
        self._frames = state["frames"]
