"""Evaluation that any task can use: episodes with mean actions, and intervals of what they show."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation
from slipstream.models.exploration import ExplorationType, set_exploration_type

MAX_STEPS = 10_000  # of an episode, if nothing else is asked for

Policy = Callable[[Observation], Any]  # returns the action, or a mapping that holds it as "action"


@torch.no_grad()
def fly_episodes(env: TensorEnv, policy: Policy, max_steps: int | None = None) -> dict[str, float]:
    """Fly one episode in each environment with mean actions; return the means of return, length and info.

    Episodes that have not ended after `max_steps` (10,000) count as they are, and `unfinished` is their share.
    """
    observation = env.reset()
    n, device = env.num_envs, env.device
    returns, length = torch.zeros(n, device=device), torch.zeros(n, device=device)
    ended = torch.zeros(n, dtype=torch.bool, device=device)
    info: dict[str, Tensor] = {}
    with set_exploration_type(ExplorationType.MEAN):
        for _ in range(max_steps or MAX_STEPS):
            record = env.step(action_of(policy(observation)))
            observation = record.observation
            flying = ~ended
            returns += torch.where(flying, record.reward, 0.0)
            length += flying
            now = (record.terminated | record.truncated) & flying
            for name, value in record.info.items():
                info[name] = torch.where(flying, value, info.get(name, value))
            ended |= now
            if bool(ended.all()):
                break
    env.check()
    means = {name: x.mean().item() for name, x in ({"return": returns, "length": length} | info).items()}
    unfinished = 1 - ended.float().mean().item()
    return means | ({"unfinished": unfinished} if unfinished else {})


def action_of(output: Any) -> Tensor:
    """Return the action of a policy's output: the output itself, or its entry "action"."""
    return output if isinstance(output, Tensor) else output["action"]


def bootstrap_interval(per_group: np.ndarray, resamples: int = 10_000, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean over groups (maps, say) by resampling them."""
    rng = np.random.default_rng(0)
    means = per_group[rng.integers(0, len(per_group), (resamples, len(per_group)))].mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share; [0, 1] if nothing was tried."""
    if not trials:
        return 0.0, 1.0
    z, p = 1.959964, hits / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return max(0.0, centre - half), min(1.0, centre + half)
