"""Rollout files: every value back bit for bit, in whole or in part, and damage is found."""

from __future__ import annotations

import numpy as np
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


def test_every_dtype_nesting_and_plain_value_is_kept(tmp_path):
    floats = torch.randn(2, 3, 4)
    data = {
        "reward": torch.randn(2, 3),
        "nested": {"deep": {"half": floats.half(), "bf16": floats.bfloat16(), "double": floats.double()}},
        "flags": floats > 0,
        "small": torch.arange(6, dtype=torch.int8).view(2, 3),
        "byte": torch.arange(6, dtype=torch.uint8).view(2, 3),
        "long": torch.arange(6).view(2, 3) * 2**40,
        "complex": torch.randn(2, 3, dtype=torch.complex64),
        "nan": torch.full((2, 3), torch.nan),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "note": "hello",
        "number": 3,
        "list": [1, 2.5, "x"],
    }
    with RolloutStorage(tmp_path) as storage:
        storage.save(data, 7)
        back = storage.load(7)
    for name in ("reward", "flags", "small", "byte", "long", "complex"):
        assert back[name].dtype == data[name].dtype and torch.equal(back[name], data[name])
    for name, tensor in data["nested"]["deep"].items():
        assert back["nested"]["deep"][name].dtype == tensor.dtype and torch.equal(back["nested"]["deep"][name], tensor)
    assert back["nan"].isnan().all() and np.array_equal(np.asarray(back["array"]), data["array"])
    assert (back["note"], back["number"], list(back["list"])) == ("hello", 3, [1, 2.5, "x"])
