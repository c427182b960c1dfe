import os

import pytest
import torch

from slipstream.checkpoint import (
    AsyncCheckpointSaver,
    format_checkpoint_name,
    get_model_size,
    load_checkpoint,
    print_model_info,
)


def test_names_hold_the_iteration():
    assert format_checkpoint_name(1000) == "checkpoint_1000.pt"
    assert format_checkpoint_name("final", prefix="policy", directory="run") == os.path.join("run", "policy_final.pt")


def test_the_size_of_a_model_counts_parameters_and_buffers():
    model = torch.nn.Sequential(torch.nn.Linear(10, 5), torch.nn.BatchNorm1d(5))
    model[0].bias.requires_grad_(False)
    size = get_model_size(model)
    assert (size["total_params"], size["trainable_params"]) == (65, 60)
    assert size["param_mb"] == 65 * 4 / 1e6 and size["buffer_mb"] == (10 * 4 + 8) / 1e6


def test_the_size_of_a_model_is_printed(capsys):
    print_model_info(torch.nn.Sequential(torch.nn.Linear(10, 5)), "Policy")
    assert "Policy" in capsys.readouterr().out


@pytest.mark.parametrize("level", [0, 1, 9, 12, 16])
@pytest.mark.parametrize("compress", [True, "lz4"])
def test_every_level_of_the_documents_works(level, compress, tmp_path):
    state = {"w": torch.randn(5000), "zeros": torch.zeros(5000)}
    with AsyncCheckpointSaver(compression_level=level) as saver:
        path = saver.save_async(state, tmp_path / "c.pt", compress)
    loaded = load_checkpoint(path)
    assert torch.equal(loaded["w"], state["w"]) and torch.equal(loaded["zeros"], state["zeros"])


@pytest.mark.skipif(
    "SLIPSTREAM_NAVRL_CHECKPOINT" not in os.environ, reason="set SLIPSTREAM_NAVRL_CHECKPOINT to NavRL's released .pt"
)
def test_navrls_released_checkpoint_loads():
    state = load_checkpoint(os.environ["SLIPSTREAM_NAVRL_CHECKPOINT"])
    assert state["feature_extractor.module.0.module.0.weight"].shape == (4, 1, 5, 3) and len(state) == 37
