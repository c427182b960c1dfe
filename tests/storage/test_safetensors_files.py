"""The `safetensors` package opens every kind of file that we write, and sees what is not compressed as it is."""

import hashlib
import math
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file
from tensordict import TensorDict

from slipstream import ReplayBuffer, RolloutStorage
from slipstream.algorithms.policy_file import shipped_policies
from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.collectors.compressed import CompressedFrames
from slipstream.storage.tensor_file import HASH


def save(state, path, **options):
    with AsyncCheckpointSaver(announce=lambda text: None, **options) as saver:
        return saver.save_async(state, path)


def test_rollouts_open(tmp_path):
    batch = {"reward": torch.arange(12.0).view(3, 4), "observation": torch.zeros(3, 4, 9)}
    with RolloutStorage(tmp_path) as storage:
        storage.save(TensorDict(batch, [3, 4]), 0)
    found = load_file(tmp_path / "rollout_000000.slip")
    assert {"reward", "observation", HASH} <= set(found) and found["reward"].dtype == torch.uint8


def test_replay_folders_open(tmp_path):
    buffer = ReplayBuffer(1000)
    buffer.add({"x": np.zeros((4, 3), np.float32), "reward": np.zeros(4, np.float32)})
    buffer.save(tmp_path)
    files = list(tmp_path.glob("*.slip"))
    assert len(files) == 2 and all(HASH in load_file(path) for path in files)
    assert HASH in load(buffer.state_dict()["replay"].numpy().tobytes())


def test_compressed_frames_open():
    frames = CompressedFrames(torch.arange(60.0).view(20, 3))
    assert {"blocks", HASH} <= set(load(frames.to_bytes()))


def test_a_compressed_checkpoint_opens_as_bytes(tmp_path):
    path = save({"w": torch.zeros(5000)}, tmp_path / "c.pt")
    assert {x.dtype for x in load_file(path).values()} == {torch.uint8}


SHIPPED = {  # SHA-256 of the tensors as they were when the policies were trained
    "aircombat": "095db70312230edc4679e458d8a4ef2b12b515f0abbee8b7f17b7f01df75c83d",
    "navigation": "84dcd1848410195b21348ba44b10a3d69487efab413c241b69e533ce44d843c9",
    "navigation_lidar": "c7e51f695bdb458c4932b1886822f7ba35af5a23a10df4a874407922186224dc",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_open_with_the_same_tensors(name):
    path = shipped_policies()[name]
    found, state = load_file(path), load_checkpoint(path)["policy"]
    digest = hashlib.sha256()
    for key in sorted(state):
        tensor = found[f"policy.{key}"]
        assert torch.equal(tensor, state[key])
        digest.update(f"{key} {tensor.dtype} {list(tensor.shape)}\n".encode() + tensor.numpy().tobytes())
    assert digest.hexdigest() == SHIPPED[name]


RAW = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64]
RAW += [torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.uint16, torch.uint32, torch.uint64]


def test_raw_tensors_of_a_checkpoint_are_as_they_are(tmp_path):
    made = {str(d).removeprefix("torch."): (torch.arange(7) % 2).to(d) for d in RAW}
    state = {"model": made, "empty": torch.empty(0, 3), "scalar": torch.tensor(2.5), "array": np.arange(5, dtype="i2")}
    path = save(state, tmp_path / "c.pt", compression_level=0)
    found = load_file(path)
    for name, tensor in made.items():
        same = found[f"model.{name}"]
        assert same.dtype == tensor.dtype and torch.equal(same.view(torch.uint8), tensor.view(torch.uint8)), name
    assert found["empty"].shape == (0, 3) and found["scalar"].shape == () and found["scalar"] == 2.5
    assert found["array"].tolist() == [0, 1, 2, 3, 4] and found["array"].dtype == torch.int16
    with safe_open(path, "np") as file:
        assert set(file.keys()) == set(found)


@pytest.mark.parametrize("level", [0, 9])
def test_odd_trees_come_back(level, tmp_path):
    weight = torch.randn(4, 6)
    state = {
        "tied": [weight, weight, weight.t(), weight[1:3]],
        "complex": torch.randn(3, dtype=torch.complex128),
        "turned": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "\ud800": torch.ones(1),
        "numbers": [math.inf, -0.0, 10**40, math.nan],
        "$x": {"$tensor": 1},
        7: {-1: torch.ones(2, dtype=torch.int8)},
        "types": [OrderedDict(a=1), Counter("aab"), (1,), torch.Size([2]), b"x"],
    }
    path = save(state, tmp_path / "c.pt", compression_level=level)
    found = load_checkpoint(path)
    assert torch.equal(found["tied"][0], weight) and torch.equal(found["tied"][2], weight.t())
    assert len({x.untyped_storage().data_ptr() for x in found["tied"]}) == 1
    assert found["turned"].stride() == state["turned"].stride() and torch.equal(found["turned"], state["turned"])
    assert torch.equal(found["complex"], state["complex"]) and torch.equal(found[7][-1], state[7][-1])
    assert (
        found["numbers"][:3] == state["numbers"][:3] and math.isnan(found["numbers"][3]) and found["$x"] == state["$x"]
    )
    assert found["types"] == state["types"]
    assert [type(x) for x in found["types"]] == [type(x) for x in state["types"]] and list(found) == list(state)
    assert HASH in load_file(path)


@pytest.mark.parametrize(("level", "count"), [(0, 10_000), (9, 100_000)])
def test_a_hundred_thousand_tensors_come_back(level, count, tmp_path):
    flat = torch.arange(float(count))
    state = {str(i): x.clone() for i, x in enumerate(flat.unbind())}
    path = save(state, tmp_path / "c.pt", compression_level=level)
    found = load_checkpoint(path, max_bytes=1 << 30)
    assert list(found) == list(state) and torch.equal(torch.stack(list(found.values())), flat)
    with safe_open(path, "pt") as file:
        assert level or file.get_tensor("9999") == 9_999
