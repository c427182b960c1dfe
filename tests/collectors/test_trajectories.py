from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from slipstream.collectors import SyncDataCollector, split_trajectories


def test_split_batches_are_the_callers_own(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 12, split_trajs=True, return_same_td=True)
    first = collector.rollout()
    collector.rollout()
    assert first["reward"][2].tolist() == [11, 12, 13]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**31), num_envs=st.integers(1, 4), steps=st.integers(1, 12))
def test_pieces_equal_those_of_a_plain_loop(seed, num_envs, steps):
    g = torch.Generator().manual_seed(seed)
    valid = torch.rand(num_envs, steps, generator=g) < 0.7
    done = (torch.rand(num_envs, steps, generator=g) < 0.3) & valid
    x = torch.arange(num_envs * steps).reshape(num_envs, steps)
    pieces: list[list[int]] = []
    for n in range(num_envs):
        piece: list[int] = []
        for t in range(steps):
            if valid[n, t]:
                piece.append(int(x[n, t]))
            if piece and (done[n, t] or not valid[n, t] or t == steps - 1):
                pieces.append(piece)
                piece = []
    split = split_trajectories(TensorDict({"valid": valid, "done": done, "x": x}, batch_size=[num_envs, steps]))
    assert [row[m].tolist() for row, m in zip(split["x"], split["mask"], strict=True)] == pieces
