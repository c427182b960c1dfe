"""Rollout files: every value back bit for bit, in whole or in part, and damage is found."""

from __future__ import annotations

import pytest
import torch
from small_worlds import CounterEnv, act
from tensordict import TensorDict

from slipstream import RolloutStorage, SyncDataCollector


@pytest.fixture
def saved(tmp_path):
    """A folder with the batches 0, 2 and 4 of a collector, and the batches."""
    batches = {}
    collector = SyncDataCollector(CounterEnv(3), act, 3 * 8)
    with RolloutStorage(tmp_path / "rollouts", compression_level=9) as storage:
        for i in (0, 2, 4):
            batches[i] = collector.rollout()
            path = storage.save(batches[i], iteration=i)
            assert path.parent == tmp_path / "rollouts" and path.name.startswith(f"rollout_{i:06d}")
        storage.wait()
        assert path.exists()
    return tmp_path / "rollouts", batches


def same(a, b) -> None:
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    for key in b.keys(True, True):
        assert a[key].dtype == b[key].dtype and torch.equal(a[key], b[key]), key


def test_batches_come_back_as_they_were(saved):
    folder, batches = saved
    storage = RolloutStorage(folder)
    assert storage.iterations() == [0, 2, 4]
    for i, batch in batches.items():
        loaded = storage.load(i)
        assert isinstance(loaded, TensorDict) and loaded.batch_size == torch.Size([3, 8])
        same(loaded, batch)
    assert [i for i, _ in storage] == [0, 2, 4]
    for i, batch in storage:
        same(batch, batches[i])


def test_a_part_can_be_loaded_alone(saved):
    folder, batches = saved
    storage = RolloutStorage(folder)
    part = storage.load_slice(2, envs=[0, 2], steps=slice(1, 5), keys=["observation", "action"])
    assert set(part.keys(True, True)) == {("observation", "count"), ("observation", "trace"), "action"}
    assert torch.equal(part["observation", "count"], batches[2]["observation", "count"][[0, 2], 1:5])
    assert torch.equal(part["action"], batches[2]["action"][[0, 2], 1:5])
    only = storage.load(4, keys=["reward"])
    assert list(only.keys(True, True)) == ["reward"] and torch.equal(only["reward"], batches[4]["reward"])
