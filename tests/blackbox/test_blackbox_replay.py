"""The replay buffer: what goes in comes out, by transitions, from files, and by the documents' names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_worlds import CounterEnv, act
from tensordict import TensorDict

from slipstream import (
    DictReplayBuffer,
    PrefixSum,
    ReplayBuffer,
    SyncDataCollector,
    compress_image,
    decompress_image_seq,
    sample_batch,
)


def episode(first: int, length: int, terminated: bool = True) -> dict[str, np.ndarray]:
    """Step k has observation first + k, action 10 (first + k), reward 100 (first + k)."""
    count = np.arange(first, first + length)
    end = np.zeros(length, bool)
    end[-1] = True
    return {
        "observation": np.arange(first, first + length + 1, dtype=np.float32).reshape(-1, 1),
        "action": 10 * count,
        "reward": (100 * count).astype(np.float32),
        "terminated": end & terminated,
        "truncated": end & (not terminated),
    }


def filled(*args, **kwargs) -> ReplayBuffer:
    """Three episodes: observations 0..3 (terminated), 10..12 (truncated), 20..24 (terminated): nine steps."""
    buffer = ReplayBuffer(*(args or (100,)), **kwargs)
    for part in (episode(0, 3), episode(10, 2, terminated=False), episode(20, 4)):
        buffer.add(part)
    return buffer


FIRST = {0, 1, 2, 10, 11, 20, 21, 22, 23}  # the observations of steps


def check_transitions(drawn: TensorDict) -> None:
    seen = drawn["observation"].squeeze(-1)
    assert set(seen.tolist()) <= FIRST
    assert torch.equal(drawn["next", "observation"].squeeze(-1), seen + 1)
    assert torch.equal(drawn["action"], (10 * seen).long()) and torch.equal(drawn["reward"], 100 * seen)


def test_a_transition_holds_what_was_added():
    buffer = filled(seed=3)
    assert len(buffer) == 9
    drawn = buffer.sample(400)
    assert isinstance(drawn, TensorDict) and drawn.batch_size == torch.Size([400])
    check_transitions(drawn)
    seen = drawn["observation"].squeeze(-1)
    assert set(seen.tolist()) == FIRST
    ends = (seen == 2) | (seen == 23)
    assert torch.equal(drawn["terminated"], ends) and torch.equal(drawn["truncated"], seen == 11)
    torch.testing.assert_close(drawn["discount"], torch.where(ends, 0.0, 0.99))
    again = buffer.get(drawn["index"])
    assert torch.equal(again["observation"], drawn["observation"]) and torch.equal(again["reward"], drawn["reward"])


def collected(batches: int = 3) -> tuple[ReplayBuffer, list[TensorDict]]:
    buffer, kept = ReplayBuffer(1000, seed=0), []
    collector = SyncDataCollector(CounterEnv(3), act, 3 * 4)
    for _ in range(batches):
        kept.append(collector.rollout())
        buffer.extend(kept[-1])
    return buffer, kept


def test_batches_go_in_and_invalid_frames_stay_out():
    buffer, kept = collected()
    assert len(buffer) == sum(int(batch["valid"].sum()) for batch in kept)
    drawn = buffer.sample(500)
    count, later = drawn["observation", "count"], drawn["next", "observation", "count"]
    assert torch.equal(later[:, :2], count[:, :2]) and torch.equal(later[:, 2], count[:, 2] + 1)
    assert torch.equal(drawn["reward"], 10 * count[:, 0] + later[:, 2])
    over = later[:, 2] == count[:, 0] + 2
    assert torch.equal(drawn["terminated"], over & (count[:, 0] % 2 == 0)) and torch.equal(
        drawn["truncated"], over & (count[:, 0] % 2 == 1)
    )
    in_two = buffer.sample(500, n_step=2, gamma=1.0)
    start, end = in_two["observation", "count"], in_two["next", "observation", "count"]
    assert (
        (end[:, 0] == start[:, 0]).all()
        and (end[:, 1] == start[:, 1]).all()
        and set((end[:, 2] - start[:, 2]).tolist()) <= {1.0, 2.0}
    )


def test_a_saved_folder_gives_the_same_draws(tmp_path):
    buffer = filled(seed=5)
    buffer.sample(10)
    buffer.save(tmp_path / "replay")
    other = ReplayBuffer(100).load(tmp_path / "replay")
    assert len(other) == 9
    for _ in range(3):
        a, b = buffer.sample(20), other.sample(20)
        assert (
            torch.equal(a["index"], b["index"])
            and torch.equal(a["observation"], b["observation"])
            and torch.equal(a["reward"], b["reward"])
        )
    buffer.add(episode(30, 3))
    buffer.save(tmp_path / "replay")  # what the earlier save lacks
    assert len(ReplayBuffer(100).load(tmp_path / "replay")) == 12


# -- the documents' names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("img_compressed", "compress_epi"), [(False, False), (True, False), (False, True)])
def test_dict_replay_buffer_and_sample_batch(img_compressed, compress_epi):
    buffer = DictReplayBuffer(100, None, "cpu", img_compressed, compress_epi)
    lengths, frames = PrefixSum(100), {}
    for first, length in ((0, 5), (50, 7)):
        image = np.random.default_rng(first).integers(0, 9, (length, 6, 6), dtype=np.uint8)
        frames |= {first + k: image[k] for k in range(length)}
        buffer.add({"image": image, "step": np.arange(first, first + length), "reward": np.ones(length, np.float32)})
        lengths.add(length)
    assert len(buffer) == 12
    for drawn in (buffer.sample(64), sample_batch(buffer, 64, lengths, "cpu"), sample_batch(buffer, 64)):
        assert drawn["image"].shape == (64, 6, 6) and drawn["image"].dtype == torch.uint8
        for step, image in zip(drawn["step"].tolist(), drawn["image"].numpy(), strict=True):
            assert np.array_equal(image, frames[step])
    assert set(sample_batch(buffer, 8, keys=["step"])) >= {"step"}
    buffer.close()


def test_prefix_sum_finds_episode_and_place():
    lengths = PrefixSum(100)
    for value in (3, 5, 2):
        lengths.add(value)
    index = np.array([0, 2, 3, 7, 8, 9])
    which = lengths.get_range_idx(index)
    assert np.asarray(which).tolist() == [0, 0, 1, 1, 2, 2]
    assert np.asarray(lengths.get_range_relative_idx(index, which)).tolist() == [0, 2, 0, 4, 0, 1]
    assert int(lengths.get_range_idx(4)) == 1
    assert np.asarray(lengths.ar).tolist() == [3, 5, 2] and np.asarray(lengths.prefix_sum).tolist()[-3:] == [3, 8, 10]
    short = PrefixSum(8)  # holds eight frames: the oldest episodes leave
    for value in (3, 5, 2):
        short.add(value)
    assert np.asarray(short.get_range_idx(np.array([0, 4, 5, 6]))).tolist() == [0, 0, 1, 1]


def test_compressed_images_are_lz4_frames_as_in_the_documents():
    import lz4.frame

    image = np.zeros((64, 64), np.uint8)
    assert lz4.frame.decompress(compress_image(image)) == image.tobytes() and len(compress_image(image)) < 400
    theirs = lz4.frame.compress(np.stack([image, image + 1]).tobytes(), compression_level=9)
    assert np.array_equal(decompress_image_seq(theirs, (64, 64), 2), np.stack([image, image + 1]))
