"""Cutting a [num_envs, T] batch at the ends of its episodes."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor


def split_trajectories(batch: TensorDict) -> TensorDict:
    """The pieces of episodes in `batch`, env by env, padded with zeros: [num_traj, max_len], `mask` True on real frames.

    Invalid frames are left out, and so are pieces without any frame. The result is new memory. Its shape depends on the
    data, so the device is waited for: for looking at trajectories, not for a hot loop.
    """
    valid, done = batch["valid"], batch["done"]  # [N, T]
    goes_on = torch.zeros_like(valid)  # the frame before belongs to the same piece
    goes_on[:, 1:] = (valid & ~done)[:, :-1]
    starts = valid & ~goes_on
    env, time = valid.nonzero(as_tuple=True)  # ordered by env, then time
    piece = starts[env, time].cumsum(0) - 1
    count = int(starts.sum())
    first = starts[env, time].nonzero().flatten()  # position of each piece's first frame in the ordered list
    offset = torch.arange(len(env), device=env.device) - first[piece]
    longest = int(offset.max()) + 1 if len(env) else 0

    def padded(x: Tensor) -> Tensor:
        out = x.new_zeros((count, longest, *x.shape[2:]))
        out[piece, offset] = x[env, time]
        return out

    split = batch.apply(padded, batch_size=[count, longest])
    assert split is not None
    split["mask"] = padded(valid)
    return split
