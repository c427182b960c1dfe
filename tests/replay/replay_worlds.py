"""Data whose every value says where it comes from, and the plain list it must come back from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from tensordict import TensorDict


@dataclass(frozen=True)
class Step:
    """One transition as the model keeps it: raw bytes, so that NaN and -0.0 count."""

    observation: bytes
    successor: bytes
    action: int
    reward: float
    terminated: bool
    truncated: bool
    episode: int

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


def chi_square_holds(counts: np.ndarray, expected: float | np.ndarray) -> bool:
    """Within five sigma of what chance gives."""
    return ((counts - expected) ** 2 / expected).sum() < len(counts) + 5 * np.sqrt(2 * len(counts))


class Worlds:
    """N environments that reset on the step after an end, as a collector hands them over; it keeps what they did as
    `Step`s."""

    def __init__(self, number: int, seed: int = 0, end: float = 0.1, width: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.number, self.end, self.width = number, end, width
        self.over = np.zeros(number, bool)
        self.observation = self._fresh(number)
        self.episode = np.arange(number)
        self.steps: list[list[Step]] = []  # a list a batch, environment by environment

    def _fresh(self, number: int) -> np.ndarray:
        values = self.rng.normal(size=(number, self.width)).astype(np.float32)
        values[self.rng.random(values.shape) < 0.05] = np.nan
        values[self.rng.random(values.shape) < 0.05] = -0.0
        return values

    def batch(self, length: int) -> TensorDict:
        """The next [N, T] batch; `next` is a view of the same memory."""
        n, t = self.number, length
        observation = np.empty((t + 1, n, self.width), np.float32)
        action, reward = self.rng.integers(0, 1000, (t, n)), self.rng.normal(size=(t, n)).astype(np.float32)
        terminated, truncated, valid = np.zeros((t, n), bool), np.zeros((t, n), bool), np.zeros((t, n), bool)
        observation[0] = self.observation
        drawn: list[list[Step]] = [[] for _ in range(n)]
        for i in range(t):
            valid[i] = ~self.over
            observation[i + 1] = self._fresh(n)
            ends = (self.rng.random(n) < self.end) & valid[i]
            timed = ends & (self.rng.random(n) < 0.3)
            terminated[i], truncated[i] = ends & ~timed, timed
            self.episode[self.over] += n
            for e in np.flatnonzero(valid[i]):
                step = Step(
                    observation[i, e].tobytes(),
                    observation[i + 1, e].tobytes(),
                    int(action[i, e]),
                    float(reward[i, e]),
                    bool(terminated[i, e]),
                    bool(truncated[i, e]),
                    int(self.episode[e]),
                )
                drawn[e].append(step)
            self.over = ends
        self.observation = observation[-1].copy()
        self.steps.append([step for env in drawn for step in env])
        rows = torch.from_numpy(observation)

        def turned(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).transpose(0, 1)

        tree = {
            "observation": {"x": rows[:-1].transpose(0, 1)},
            "action": turned(action),
            "reward": turned(reward),
            "terminated": turned(terminated),
            "truncated": turned(truncated),
            "done": turned(terminated | truncated),
            "valid": turned(valid),
            "next": {"observation": {"x": rows[1:].transpose(0, 1)}},
        }
        return TensorDict(tree, batch_size=[n, t])


def steps_of(batch: TensorDict) -> list[tuple[bytes, bytes, int, float, bool, bool]]:
    """A drawn [B] batch in the model's terms, without the episodes."""
    x, after = batch["observation", "x"].numpy(), batch["next", "observation", "x"].numpy()
    rest = zip(*(batch[k].tolist() for k in ("action", "reward", "terminated", "truncated")), strict=True)
    return [(a.tobytes(), b.tobytes(), *r) for a, b, r in zip(x, after, rest, strict=True)]


def plain(steps: list[Step]) -> list[tuple[bytes, bytes, int, float, bool, bool]]:
    return [(s.observation, s.successor, s.action, s.reward, s.terminated, s.truncated) for s in steps]
