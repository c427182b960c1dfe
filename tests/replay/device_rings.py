"""Rings on a device, filled, for tests; and batches whose rows tell whether they are whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from replay_worlds import Worlds

from slipstream.replay import ReplayBuffer

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def ring(capacity, **settings):
    return ReplayBuffer(capacity, storage="ring", **settings)


def filled(seed, number=3, capacity=200, batches=25, end=0.1, storage="ring", **settings):
    rng = np.random.default_rng(seed)
    worlds, buffer = Worlds(number, seed, end), ReplayBuffer(capacity, storage=storage, seed=seed, **settings)
    for _ in range(batches):
        buffer.extend(worlds.batch(int(rng.integers(1, 12))))
    return buffer, {step.observation: step for batch in worlds.steps for step in batch}


def bits(row):
    return row.numpy().tobytes()


def counting(first, number, length, device="cpu", width=1):
    """A [N, T] batch of one endless episode an environment: x = time + 1e6 * environment = reward, in all `width`
    columns."""
    x = torch.arange(first, first + length + 1, dtype=torch.float64).unsqueeze(1) + 1e6 * torch.arange(number)
    x = x.unsqueeze(2).expand(-1, -1, width).contiguous().to(device).transpose(0, 1)
    ends = torch.zeros(number, length, dtype=torch.bool, device=device)
    tree = {"observation": {"x": x[:, :-1]}, "next": {"observation": {"x": x[:, 1:]}}, "reward": x[:, :-1, 0]}
    return tree | {"terminated": ends, "truncated": ends.clone(), "valid": ~ends}


def torn(batch):
    """Rows of `counting` that are no transition."""
    x, after = batch["observation", "x"], batch["next", "observation", "x"]
    return int(((after - x != 1).any(1) | (x != x[:, :1]).any(1) | (batch["reward"] != x[:, 0])).sum())
