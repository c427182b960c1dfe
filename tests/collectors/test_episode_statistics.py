from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.collectors import EpisodeStatistics


def _rollouts(seed: int, num_envs: int, lengths: list[int], end_rate: float) -> list[dict]:
    """Random rollouts that keep the contract: the frame after an end is invalid, wherever the cut between batches
    falls."""
    g = torch.Generator().manual_seed(seed)
    pending = torch.zeros(num_envs, dtype=torch.bool)
    rollouts = []
    for steps in lengths:
        done, valid = torch.zeros(2, steps, num_envs, dtype=torch.bool)
        for t in range(steps):
            valid[t] = ~pending
            pending = (torch.rand(num_envs, generator=g) < end_rate) & valid[t]
            done[t] = pending
        info = {name: torch.randn(steps, num_envs, generator=g).where(done, torch.nan) for name in ("won", "score")}
        reward = torch.randn(steps, num_envs, generator=g)
        rollouts.append({"reward": reward, "done": done, "valid": valid, "info": info})
    return rollouts


def _plain_loop(rollouts: list[dict], pops: list[bool]) -> list[dict[str, float]]:
    """What `pop` must give after the rollouts marked in `pops`: frame by frame, in Python."""
    num_envs = rollouts[0]["reward"].shape[1]
    total, length = [0.0] * num_envs, [0] * num_envs
    ended: list[dict[str, float]] = []
    popped = []
    for rollout, pop in zip(rollouts, pops, strict=True):
        reward, done, valid = (rollout[k].tolist() for k in ("reward", "done", "valid"))
        for t in range(len(reward)):
            for n in range(num_envs):
                if not valid[t][n]:
                    continue
                total[n] += reward[t][n]
                length[n] += 1
                if done[t][n]:
                    facts = {name: x[t, n].item() for name, x in rollout["info"].items()}
                    ended.append({"return": total[n], "length": length[n], **facts})
                    total[n], length[n] = 0.0, 0
        if pop:
            means = {k: sum(e[k] for e in ended) / len(ended) for k in ended[0]} if ended else {}
            popped.append({"count": float(len(ended)), **means})
            ended = []
    return popped


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    num_envs=st.integers(1, 5),
    batches=st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=6),
    end_rate=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_statistics_equal_a_plain_loop_over_the_frames(seed, num_envs, batches, end_rate):
    rollouts = _rollouts(seed, num_envs, [steps for steps, _ in batches], end_rate)
    pops = [pop for _, pop in batches]
    statistics = EpisodeStatistics(num_envs)
    got = []
    for rollout, pop in zip(rollouts, pops, strict=True):
        statistics.update(**rollout)
        if pop:
            got.append(statistics.pop())
    expected = _plain_loop(rollouts, pops)
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6, abs=1e-6)


def _frames(reward, done, valid=None, **info):
    reward, done = torch.tensor(reward), torch.tensor(done, dtype=torch.bool)
    valid = torch.ones_like(done) if valid is None else torch.tensor(valid, dtype=torch.bool)
    return {"reward": reward, "done": done, "valid": valid, "info": {k: torch.tensor(v) for k, v in info.items()}}


def test_a_nan_reward_spoils_its_own_episode_only():
    statistics = EpisodeStatistics(1)
    statistics.update(**_frames([[float("nan")], [1.0]], [[0], [1]]))
    assert math.isnan(statistics.pop()["return"])
    statistics.update(**_frames([[2.0], [3.0]], [[0], [1]]))
    assert statistics.pop() == {"count": 1.0, "return": 5.0, "length": 2.0}


def test_sums_stay_exact_beyond_what_float32_can_count():
    statistics = EpisodeStatistics(1)
    statistics._running_length.fill_(2.0**24)
    statistics.update(**_frames([[1.0]], [[1]]))
    assert statistics.pop()["length"] == 2**24 + 1


def test_restart_discards_unfinished_episodes_only():
    statistics = EpisodeStatistics(1)
    statistics.update(**_frames([[1.0], [2.0]], [[1], [0]]))
    statistics.restart()
    statistics.update(**_frames([[4.0]], [[1]]))
    assert statistics.pop() == {"count": 2.0, "return": 2.5, "length": 1.0}


def test_info_keys_must_stay_the_same_and_leave_our_names_alone():
    statistics = EpisodeStatistics(1)
    with pytest.raises(ValueError, match="'return' is one of the statistics' own"):
        statistics.update(**_frames([[1.0]], [[1]], **{"return": [[1.0]]}))
    statistics.update(**_frames([[1.0]], [[1]], won=[[1.0]]))
    with pytest.raises(ValueError, match=r"keys \['lost'\], before \['won'\]"):
        statistics.update(**_frames([[1.0]], [[1]], lost=[[1.0]]))


def test_loading_the_state_of_another_number_of_envs_is_refused():
    with pytest.raises(ValueError, match="of 3 environments, these of 2"):
        EpisodeStatistics(2).load_state_dict(EpisodeStatistics(3).state_dict())
