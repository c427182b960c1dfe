"""Checkpoints: saved beside the program, complete or not at all, every value back, differences, damage."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from cli_runner import contents, run_cli

from slipstream import AsyncCheckpointSaver, format_checkpoint_name, get_model_size, load_checkpoint, print_model_info

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2),
]
FORMS = {True: ".slip", "lz4": ".lz4", False: ""}


def trained(steps: int = 3) -> dict:
    """A model and its optimiser after some steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
        "iteration": steps,
    }


def everything() -> dict:
    shared = torch.arange(12.0)
    return {
        "dtypes": {str(dtype): (torch.rand(3, 5) * 4 - 2).to(dtype) for dtype in DTYPES},
        "shapes": [
            torch.tensor(3.5),
            torch.zeros(0, 4),
            torch.ones(1),
            torch.randn(4, 6).t(),
            torch.randn(5, 6)[:, ::2],
        ],
        "odd": torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0]),
        "shared": {"a": shared, "b": shared.view(3, 4)},
        "array": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "plain": {"int": 2**70, "float": 0.1, "text": "Grüße", "bytes": b"\x00\xff", "none": None, "flag": True},
        "nested": [1, (2.5, ["x", {"deep": (torch.tensor([1, 2]),)}])],
        7: "a number as key",
        "empty": {"dict": {}, "list": [], "tuple": ()},
    }


@pytest.mark.parametrize("compress", FORMS)
def test_training_state_comes_back_bit_for_bit(tmp_path, compress):
    state = trained()
    with AsyncCheckpointSaver() as saver:
        written = saver.save_async(state, tmp_path / "c.pt", compress=compress)
        saver.wait()
        assert written == tmp_path / f"c.pt{FORMS[compress]}" and written.exists()
    for path in (tmp_path / "c.pt", written, str(written)):
        back = load_checkpoint(path)
        assert contents(back) == contents(state) and back["iteration"] == 3
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    model.load_state_dict(load_checkpoint(tmp_path / "c.pt", keys=["model"])["model"])
    assert set(load_checkpoint(tmp_path / "c.pt", keys=["model"])) == {"model"}
    assert torch.equal(model[2].weight, state["model"]["2.weight"])


def test_every_dtype_shape_and_plain_value(tmp_path):
    state = everything()
    with AsyncCheckpointSaver() as saver:
        saver.save_async(state, tmp_path / "all.pt")
    back = load_checkpoint(tmp_path / "all.pt")
    assert contents(back) == contents(state) and list(back) == list(state)
    assert back["plain"] == state["plain"] and isinstance(back["plain"]["flag"], bool)
    assert back["array"].dtype == np.uint16 and np.array_equal(back["array"], state["array"])
    assert (
        back["nested"][1][0] == 2.5
        and isinstance(back["nested"][1], tuple)
        and isinstance(back["nested"][1][1][1]["deep"], tuple)
    )
    assert back["empty"] == {"dict": {}, "list": [], "tuple": ()} and isinstance(back["empty"]["tuple"], tuple)
    back["shared"]["a"][0] = 99.0
    assert back["shared"]["b"][0, 0] == 99.0  # tensors that shared memory share it again


def test_the_state_at_the_call_is_saved_not_a_later_one(tmp_path):
    tensor = torch.zeros(200_000)
    with AsyncCheckpointSaver() as saver:
        for i in range(3):
            tensor.fill_(i)
            saver.save_async({"x": tensor}, tmp_path / f"c_{i}.pt", step=i)
        tensor.fill_(9)
    for i in range(3):
        assert (load_checkpoint(tmp_path / f"c_{i}.pt")["x"] == i).all()
    stats = saver.get_stats()
    assert stats["queue_size"] == 0 and 3 in [value for value in stats.values() if isinstance(value, int)]


def test_a_plain_file_is_torchs_own_and_torchs_own_is_read(tmp_path):
    state = trained()
    with AsyncCheckpointSaver() as saver:
        saver.save_async(state, tmp_path / "plain.pt", compress=False)
    assert contents(torch.load(tmp_path / "plain.pt", weights_only=True)) == contents(state)
    torch.save(state, tmp_path / "theirs.pt")
    assert contents(load_checkpoint(tmp_path / "theirs.pt")) == contents(state)


def test_differences_are_smaller_and_load_completely(tmp_path):
    torch.manual_seed(1)
    weights, states = torch.randn(100, 1000), []
    with AsyncCheckpointSaver(full_every=3) as saver:
        for i in range(5):
            weights[i] += 1.0
            states.append(weights.clone())
            saver.save_async({"w": weights, "i": i}, tmp_path / f"c_{i}.pt", step=i)
    for i, wanted in enumerate(states):
        back = load_checkpoint(tmp_path / f"c_{i}.pt")
        assert back["i"] == i and torch.equal(back["w"], wanted)
    size = [(tmp_path / f"c_{i}.pt.slip").stat().st_size for i in range(5)]
    assert max(size[1], size[2], size[4]) < 0.2 * min(size[0], size[3])
    (tmp_path / "c_1.pt.slip").unlink()  # a difference needs its whole file, never a chain
    assert torch.equal(load_checkpoint(tmp_path / "c_2.pt")["w"], states[2])
    assert run_cli("ckpt", "export", tmp_path / "c_2.pt", "--to", "slip", "--out", tmp_path / "one.pt.slip").code == 0
    (tmp_path / "c_0.pt.slip").unlink()
    assert torch.equal(load_checkpoint(tmp_path / "one.pt")["w"], states[2])


def test_names_and_sizes(capsys):
    assert format_checkpoint_name(1000) == "checkpoint_1000.pt"
    assert format_checkpoint_name("final", prefix="nav", suffix=".ckpt", directory="runs") == os.path.join(
        "runs", "nav_final.ckpt"
    )
    model = torch.nn.Linear(10, 4)
    size = get_model_size(model)
    assert 44 in size.values() and isinstance(size, dict)
    print_model_info(model, name="Drone")
    shown = capsys.readouterr().out
    assert "Drone" in shown and "44" in shown
