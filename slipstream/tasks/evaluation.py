"""Evaluation that any task can use: episodes with mean actions, and intervals of what they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.memory import Stepper

MAX_STEPS = 10_000  # of an episode, if nothing else is asked for
PROGRESS_EVERY = 20  # steps
MAX_RESAMPLED = 4_000_000  # values in memory at a time, of a bootstrap

Policy = Callable[[Observation], Any]  # returns the action, or a mapping that holds it as "action"


class TrainingEvaluation:
    """The evaluations of one training, one after the other. The training keeps it, so a task can keep what it builds.

    A subclass may let them run beside the training: `take` then returns None until the metrics are there.

    Args:
        policy: the network that is trained.
        run: evaluates it and returns the metrics.
    """

    def __init__(self, policy: Any, run: Callable[[], dict[str, float]]) -> None:
        self.policy = policy  # with the weights of the evaluation that was started last
        self._run = run
        self._found: dict[str, float] | None = None

    def start(self) -> None:
        """Start an evaluation of the present weights; this class waits for its end."""
        self._found = self._run()

    def take(self, wait: bool = True) -> dict[str, float] | None:
        """Return the metrics of the evaluation that was started; without `wait` None if it still runs."""
        found, self._found = self._found, None
        return found

    def close(self) -> None:
        """Stop an evaluation that still runs."""


def fly_episodes(env: TensorEnv, policy: Policy, max_steps: int | None = None) -> dict[str, float]:
    """Fly one episode in each environment with mean actions; return the means of return, length and info.

    Episodes that have not ended after `max_steps` (10,000) count as they are, and `unfinished` is their share.
    """
    return {name: x.mean().item() for name, x in fly_each(env, policy, max_steps).items()}


@torch.no_grad()
def fly_each(
    env: TensorEnv, policy: Policy, max_steps: int | None = None, progress: Callable[[float], None] | None = None
) -> dict[str, Tensor]:
    """Fly as `fly_episodes` does; return the figures of each episode, [N] each. `progress` takes the share done."""
    observation = env.reset()
    n, device = env.num_envs, env.device
    returns, length = torch.zeros(n, device=device), torch.zeros(n, device=device)
    ended = torch.zeros(n, dtype=torch.bool, device=device)
    info: dict[str, Tensor] = {}
    limit = max_steps or MAX_STEPS
    stepper = Stepper(policy, n, device)
    with set_exploration_type(ExplorationType.MEAN):
        for step in range(limit):
            record = env.step(action_of(stepper(observation)))
            stepper.keep(record.valid)
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
            if progress and step % PROGRESS_EVERY == 0:
                progress(max(ended.float().mean().item(), step / limit))
    env.check()
    unfinished = {} if bool(ended.all()) else {"unfinished": ~ended}
    return {name: x.float() for name, x in ({"return": returns, "length": length} | info | unfinished).items()}


def with_intervals(figures: Mapping[str, Tensor], resamples: int = 10_000) -> dict[str, float | None]:
    """Return the mean of each figure [N] as NAME, and its 95 % interval over the N episodes as NAME_low and NAME_high.

    That of a rate is Wilson's, of another mean a bootstrap's. One episode has no interval: both are None.
    """
    found: dict[str, float | None] = {}
    for name, x in figures.items():
        is_rate = bool(((x == 0) | (x == 1)).all())
        low, high = wilson(int(x.sum()), len(x)) if is_rate else bootstrap_interval(x.cpu().numpy(), resamples)
        found |= {name: x.mean().item(), f"{name}_low": low, f"{name}_high": high}
        found |= {f"{name}_low": None, f"{name}_high": None} if len(x) == 1 else {}
    return found


def action_of(output: Any) -> Tensor:
    """Return the action of a policy's output: the output itself, or its entry "action"."""
    return output if isinstance(output, Tensor) else output["action"]


def bootstrap_interval(per_group: np.ndarray, resamples: int = 10_000, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean over groups (maps, say) by resampling them."""
    rng, count = np.random.default_rng(0), len(per_group)
    rows = max(1, MAX_RESAMPLED // count)  # at a time
    parts = [min(rows, resamples - done) for done in range(0, resamples, rows)]
    means = np.concatenate([per_group[rng.integers(0, count, (part, count))].mean(1) for part in parts])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share; [0, 1] if nothing was tried."""
    if not trials:
        return 0.0, 1.0
    if hits in (0, trials):  # exact where rounding would leave a bound beside 0 or 1
        bound = trials / (trials + 1.959964**2)
        return (bound, 1.0) if hits else (0.0, 1 - bound)
    z, p = 1.959964, hits / trials
    center = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return max(0.0, center - half), min(1.0, center + half)
