"""Fills, saves and spills a buffer until it is killed; says after each save how far it had come.

python replay_victim.py FOLDER save|spill
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from slipstream.replay import ReplayBuffer

WIDTH = 100


def batch(first: int) -> dict:
    """Ten steps of two environments; every number says which step it belongs to."""
    steps = torch.arange(first, first + 11, dtype=torch.float64)
    x = (steps[None, :, None] * 2 + torch.arange(2)[:, None, None]) * 1000 + torch.arange(WIDTH)
    reward = x[:, :-1, 0].clone()
    return {"observation": x[:, :-1], "reward": reward, "terminated": reward < 0, "next": {"observation": x[:, 1:]}}


def check(buffer: ReplayBuffer) -> int:
    """Everything in the buffer is right; the largest step that is there."""
    numbers = np.arange(buffer.stats()["steps_ever"] - len(buffer), buffer.stats()["steps_ever"])
    got = buffer.get(numbers)
    x, after = got["observation"].numpy(), got["next", "observation"].numpy()
    assert (x == got["reward"].numpy()[:, None] + np.arange(WIDTH)).all()
    assert (after == x + 2000).all()
    return int(x[:, 0].max() // 2000)


def main(folder: str, mode: str) -> None:
    spill = {"spill_dir": folder, "memory_budget": 2_500_000, "codec": "raw"} if mode == "spill" else {}
    buffer = ReplayBuffer(30_000 if mode == "spill" else 3000, **spill)
    first = 0
    while True:
        for _ in range(20):
            buffer.extend(batch(first))
            first += 10
        if mode == "save":
            buffer.save(folder)
        print(first - 1, buffer.stats()["spilled_files"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
