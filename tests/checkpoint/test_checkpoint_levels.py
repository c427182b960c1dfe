import os

import pytest
import torch

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint


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
