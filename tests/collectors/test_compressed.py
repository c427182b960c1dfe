"""Compressed batches hold what plain ones hold, open only what is asked for, and train a policy to the same weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from slipstream.collectors import (
    CompressedBatch,
    CompressedDataCollector,
    CompressedFrames,
    CompressedLidarInput,
    CompressedLidarTransform,
    compress_rollout,
)
from slipstream.storage.errors import DamagedFileError


def make_batch(num_envs=6, steps=5, seed=0) -> TensorDict:
    """Memory time-major, `next` one row on, as our collector's; a lidar that sees little."""
    g = torch.Generator().manual_seed(seed)
    lidar = torch.where(torch.rand(steps + 1, num_envs, 1, 36, 4, generator=g) < 0.1, torch.rand(1, generator=g), 0.0)
    state = torch.randn(steps + 1, num_envs, 8, generator=g)
    value = torch.randn(steps + 1, num_envs, generator=g)
    reward = torch.randn(steps, num_envs, generator=g)
    view = lambda x: x[:steps].transpose(0, 1)  # noqa: E731
    following = lambda x: x[1:].transpose(0, 1)  # noqa: E731
    tree = {
        "observation": {"lidar": view(lidar), "state": view(state)},
        "value": view(value),
        "reward": reward.transpose(0, 1),
        "next": {"observation": {"lidar": following(lidar), "state": following(state)}, "value": following(value)},
    }
    return TensorDict(tree, [num_envs, steps])


def equal(a, b) -> bool:
    keys = set(a.keys(True, True))
    return keys == set(b.keys(True, True)) and all(torch.equal(a[key], b[key]) for key in keys)


@pytest.mark.parametrize("level", [0, 1, 9, 16])
@pytest.mark.parametrize("keys", [None, ["lidar"], ["state"], []])
def test_a_batch_comes_back_as_it_was(level, keys):
    batch = make_batch()
    packed = compress_rollout(batch, level, keys)
    assert isinstance(packed, CompressedBatch)
    assert equal(packed.decode(), batch)


def test_a_batch_does_not_share_the_collectors_memory():
    batch = make_batch()
    want = batch.clone()
    packed = compress_rollout(batch)
    for x in batch.values(True, True):
        x.zero_()
    assert equal(packed.decode(), want)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 29), min_size=1, max_size=40))
def test_a_minibatch_is_those_frames_of_the_flattened_batch(indices):
    batch = make_batch()
    got = compress_rollout(batch).minibatch(indices)
    assert equal(got, batch.reshape(-1)[torch.tensor(indices)])


def test_a_frame_that_is_not_there_is_refused():
    packed = compress_rollout(make_batch())
    for index in (-1, 30):
        with pytest.raises(IndexError, match="0 … 29"):
            packed.minibatch([index])


def test_a_minibatch_opens_only_the_frames_it_needs(monkeypatch):
    packed = compress_rollout(make_batch())
    column = packed.frames["observation", "lidar"]._column
    opened = []
    gather = column.gather
    monkeypatch.setattr(column, "gather", lambda rows, out: opened.extend(rows.tolist()) or gather(rows, out))
    packed.minibatch([7, 8])  # env 1, steps 2 and 3, and what follows each
    assert sorted(opened) == [2 * 6 + 1, 3 * 6 + 1, 3 * 6 + 1, 4 * 6 + 1]


def test_the_lidar_shrinks_and_bytes_are_counted_right():
    batch = make_batch(64, 16)
    packed = compress_rollout(batch)
    lidar = packed.frames["observation", "lidar"]
    assert lidar.raw_nbytes == 64 * 17 * 36 * 4 * 4
    assert lidar.ratio > 1.5
    raw = lidar.raw_nbytes + 64 * 17 * 8 * 4 + 64 * 17 * 4 + 64 * 16 * 4
    assert packed.raw_nbytes == pytest.approx(raw, rel=0.1)
    assert packed.nbytes == pytest.approx(raw - lidar.raw_nbytes + lidar.nbytes, rel=0.1)
    assert packed.ratio > 1.3


def test_what_does_not_gain_stays_plain():
    g = torch.Generator().manual_seed(0)
    noise = torch.rand(6, 64, 50, generator=g)
    now, later = noise[:5].transpose(0, 1), noise[1:].transpose(0, 1)
    batch = TensorDict({"observation": {"n": now}, "next": {"observation": {"n": later}}}, [64, 5])
    packed = compress_rollout(batch)
    assert not packed.frames and equal(packed.decode(), batch)
    assert packed.nbytes == 6 * 64 * 50 * 4  # the next ones are one row further


@pytest.mark.parametrize("resets", [False, True])
def test_keys_are_read_as_in_the_plain_batch(resets):
    batch = make_batch()
    if resets:
        batch["next", "observation", "state"] = batch["next", "observation", "state"] + 1
    packed = compress_rollout(batch)
    for key in batch.keys(True, True):
        assert torch.equal(packed[key], batch[key]), key
    assert torch.equal(packed["observation"]["lidar"], batch["observation", "lidar"])
    assert packed.get("log_prob", 3) == 3
    with pytest.raises(KeyError, match="no key 'radar', but observation.lidar, observation.state,.* value, reward"):
        packed["radar"]
    with pytest.raises(KeyError, match="radar"):
        packed["observation"]["radar"]


def test_one_value_for_all_steps_keeps_one_memory():
    batch = make_batch()
    batch["version"] = torch.arange(6)[:, None].expand(6, 5)
    batch["observation", "wind"] = torch.ones(6, 1, 20).expand(6, 5, 20)
    batch["next", "observation", "wind"] = torch.cat((torch.ones(6, 4, 20), torch.zeros(6, 1, 20)), 1)
    packed = compress_rollout(batch)
    assert equal(packed.decode(), batch) and set(packed.keys()) == set(batch.keys())
    assert packed.rows["version",].untyped_storage().nbytes() == 6 * 8


def test_a_batch_of_one_env_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"is \[N, T\], not \[5\]: of one env, use batch.unsqueeze"):
        compress_rollout(make_batch()[0])


def test_a_key_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="'radar'"):
        compress_rollout(make_batch(), keys=["radar"])
    with pytest.raises(ValueError, match="0 … 16"):
        CompressedDataCollector([], 17)


# -- frames, and the transform of one key ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int64, torch.bool])
@pytest.mark.parametrize("level", [1, 4])
def test_frames_of_any_dtype_come_back_by_way_of_bytes(dtype, level):
    frames = (100 * torch.rand(37, 5, 3)).to(dtype)
    packed = CompressedFrames(frames, level)
    again = CompressedFrames.from_bytes(packed.to_bytes())
    index = torch.tensor([36, 0, 5, 5])
    for each in (packed, again):
        assert torch.equal(each.rows(), frames)
        assert torch.equal(each.rows(index), frames[index])
        assert each.shape == (37, 5, 3)


def test_frames_that_lack_their_first_block_are_refused():
    frames = CompressedFrames(torch.rand(2500, 20))
    frames._column.evict(1024)
    with pytest.raises(DamagedFileError, match="the number of its first frame is 1024"):
        CompressedFrames.from_bytes(frames.to_bytes())


@pytest.mark.parametrize("batch_size", [[], [6], [3, 4]])
def test_the_lidar_goes_through_the_transform_and_back(batch_size):
    lidar = torch.rand(*batch_size, 1, 36, 4).round()
    tree = {"observation": {"lidar": lidar.clone(), "state": torch.rand(*batch_size, 8)}}
    data = TensorDict(tree, batch_size)
    transform = CompressedLidarTransform(compression_level=1)
    packed = transform(data)
    assert ("observation", "lidar") not in packed.keys(True, True)
    held = packed["observation", "lidar_compressed"]
    flat = lidar.reshape(-1, 1, 36, 4)
    assert torch.equal(CompressedLidarInput()(held), flat)
    assert torch.equal(CompressedLidarInput()(held.to_bytes()), flat)
    assert torch.equal(CompressedLidarInput()(flat), flat)
    assert torch.equal(transform.inverse(packed)["observation", "lidar"], lidar)


@pytest.mark.parametrize("name", ["lidar", "state"])
def test_a_written_observation_leaves_its_successor(name):
    batch = make_batch()
    packed = compress_rollout(batch, keys=["lidar"])
    packed["observation", name] = packed["observation", name] * 2
    batch["observation", name] = batch["observation", name] * 2
    assert equal(packed.decode(), batch) and equal(CompressedBatch.from_bytes(packed.to_bytes()).decode(), batch)
    packed["next", "observation", "state"] = batch["next", "observation", "state"] = torch.ones(6, 5, 8)
    assert equal(packed.decode(), batch) and equal(packed.minibatch(range(30)), batch.reshape(-1))


def test_nested_values_are_written_and_read():
    packed = compress_rollout(make_batch())
    packed["x"] = TensorDict({"a": torch.ones(6, 5)}, [6, 5])
    assert torch.equal(packed["x", "a"], torch.ones(6, 5))
    packed["x"] = torch.zeros(6, 5)
    assert torch.equal(packed["x"], torch.zeros(6, 5))


@pytest.mark.parametrize("shape", [(5, 5), (10, 3), (6, 6), (1, 6, 5)])
def test_a_value_of_another_batch_size_is_refused(shape):
    with pytest.raises(RuntimeError, match="batch"):
        compress_rollout(make_batch())["x"] = torch.ones(shape)
