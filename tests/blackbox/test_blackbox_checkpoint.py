"""Checkpoints: saved beside the program, every value back."""

from __future__ import annotations

import os

import pytest
import torch
from cli_runner import contents

from slipstream import AsyncCheckpointSaver, format_checkpoint_name, get_model_size, load_checkpoint, print_model_info

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


def test_a_plain_file_is_torchs_own_and_torchs_own_is_read(tmp_path):
    state = trained()
    with AsyncCheckpointSaver() as saver:
        saver.save_async(state, tmp_path / "plain.pt", compress=False)
    assert contents(torch.load(tmp_path / "plain.pt", weights_only=True)) == contents(state)
    torch.save(state, tmp_path / "theirs.pt")
    assert contents(load_checkpoint(tmp_path / "theirs.pt")) == contents(state)


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
