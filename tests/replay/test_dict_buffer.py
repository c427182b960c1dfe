"""The documents' names on the buffer underneath."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from test_replay_keys import documents_episode

from slipstream import DictReplayBuffer, PrefixSum, ReplayBuffer, sample_batch


@pytest.mark.parametrize("mode", [{}, {"img_compressed": True}, {"compress_epi": True}])
def test_frames_and_episodes_stay_together_after_evictions(mode):
    """The documents' code drifts here: after the first eviction its index points into other episodes."""
    buffer = DictReplayBuffer(120, **mode)
    episodes = [documents_episode(length, seed) for seed, length in enumerate([50, 30, 60, 7, 1, 44])]
    for episode in episodes:
        buffer.add(episode)
    kept = episodes[2:]  # 60 + 7 + 1 + 44
    assert len(buffer) == 112
    assert buffer.episode_lens_prefix_sum.ar.tolist() == [60, 7, 1, 44]
    by_reward = {float(r): (e, t) for e in kept for t, r in enumerate(e["reward"])}
    batch = buffer.sample(500)
    assert set(batch) == set(episodes[0])
    seen = set()
    for k in range(500):
        episode, t = by_reward[float(batch["reward"][k])]
        seen.add(float(batch["reward"][k]))
        for key in batch:
            assert batch[key][k].numpy().tobytes() == episode[key][t].tobytes(), key
    assert len(seen) > 100


def test_only_the_keys_named_are_kept_and_all_of_them_are_needed():
    buffer = DictReplayBuffer(100, keys=["gridmap_inputs", "done"])
    buffer.add(documents_episode(10))
    assert set(buffer.sample(4)) == {"gridmap_inputs", "done"} and set(sample_batch(buffer, 4, keys=["done"])) == {
        "done"
    }
    with pytest.raises(KeyError, match="no 'gridmap_inputs'"):
        buffer.add({"done": np.zeros(3, bool)})


def test_arrays_of_varying_size_come_padded_with_masks():
    buffer = DictReplayBuffer(100, ragged={"node_inputs": (4, None)})
    nodes = [np.full((n, 2), n, np.float32) for n in (1, 3, 4, 2)]
    buffer.add({"node_inputs": nodes, "done": np.arange(4) == 3})
    drawn = buffer.sample(50)
    assert set(drawn) == {"node_inputs", "node_inputs_mask", "done"}
    for padded, mask in zip(drawn["node_inputs"], drawn["node_inputs_mask"], strict=True):
        n = int(mask.sum())
        assert padded[mask].tolist() == [[n, n]] * n and not padded[~mask].any()


def test_rows_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="'b' has 3 rows and 'a' 4"):
        DictReplayBuffer(20).add({"a": torch.zeros(4), "b": torch.zeros(3)})


@pytest.mark.parametrize("length", [2.5, 2.0, np.float32(1), "2", None])
def test_a_prefix_sum_counts_in_whole_frames(length):
    lengths = PrefixSum(10)
    lengths.add(np.int64(3))
    with pytest.raises(TypeError, match="frames: give a whole number"):
        lengths.add(length)
    assert lengths.ar.tolist() == [3]


@pytest.mark.parametrize("make", [ReplayBuffer, DictReplayBuffer, lambda n: ReplayBuffer(n, storage="ring")])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_of_a_buffer_name_state_dict(make, copied):
    buffer = make(10)
    with pytest.raises(TypeError, match=r"cannot be pickled or copied.*state_dict\(\)"):
        copied(buffer)
    buffer.close()
