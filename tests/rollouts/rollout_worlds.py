"""Batches that rollout tests save: of any dtype and shape, and of a small world whose numbers say where they belong."""

from __future__ import annotations

from typing import Any

import torch
from helpers.states import DTYPES, random_tensor
from hypothesis import strategies as st
from tensordict import TensorDict

from slipstream.rollouts.file import RolloutFile


@st.composite
def batches(draw: Any) -> TensorDict:
    """A TensorDict [envs, steps] or [steps] of nested keys of any dtype, transposed and shared memory among them."""
    lead = draw(st.sampled_from([(3, 5), (1, 1), (4, 32), (2, 0), (0, 3), (7,), (40, 3)]))
    out = TensorDict({}, batch_size=lead)
    for i in range(draw(st.integers(1, 5))):
        shape = (*lead, *draw(st.lists(st.integers(0, 6), max_size=2)))
        tensor = random_tensor(shape, draw(st.sampled_from(DTYPES)), draw(st.integers(0, 99)))
        if len(lead) == 2 and draw(st.booleans()):  # time-major memory
            tensor = tensor.transpose(0, 1).contiguous().transpose(0, 1)
        key: Any = draw(st.sampled_from([f"k{i}", ("observation", f"o{i}"), ("a", "b", f"c{i}")]))
        out[key] = tensor
        if draw(st.booleans()) and lead[-1] and isinstance(key, tuple):
            dim = len(lead) - 1
            following = torch.cat((tensor.narrow(dim, 1, lead[-1] - 1), tensor.narrow(dim, 0, 1)), dim)
            out["next", *key] = following
    if draw(st.booleans()):
        out["task"] = draw(st.text(max_size=5))
    return out


def world(envs: int = 6, steps: int = 16, first: int = 0, alias: bool = True) -> TensorDict:
    """A batch as our collector gives it: T + 1 rows of memory, `next` a view of it one row on; every number says its
    env and step."""
    t = torch.arange(first, first + steps + 1, dtype=torch.float32)[:, None, None]
    x = (t * 1000 + torch.arange(envs)[:, None]) + torch.arange(40) / 64
    obs, after = x[:-1].transpose(0, 1), x[1:].transpose(0, 1)
    if not alias:
        obs, after = obs.clone(), after.clone()
    reward = x[:-1, :, 0].transpose(0, 1).clone()
    end = (torch.arange(first, first + steps) % 5 == 4).expand(envs, steps)
    data = {
        "observation": {"x": obs},
        "action": x[:-1, :, :3].transpose(0, 1).clone(),
        "reward": reward,
        "done": end.clone(),
    }
    out = TensorDict(data, batch_size=[envs, steps])
    out["next"] = TensorDict(
        {"observation": TensorDict({"x": after}, batch_size=[envs, steps])}, batch_size=[envs, steps]
    )
    return out


def flip(path: Any, *key: str) -> None:
    """Flip a bit near the end of a key's last piece."""
    file = RolloutFile(path)
    column = next(column for column in file.columns if column.key == key)
    last = column.first + column.num_pieces - 1
    content = bytearray(path.read_bytes())
    content[int(file.container.offsets[last]) + int(file.container.sizes[last]) - 9] ^= 1
    path.write_bytes(content)
