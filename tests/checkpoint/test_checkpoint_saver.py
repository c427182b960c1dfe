import torch

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint


def test_what_is_saved_is_the_state_at_the_call(tmp_path):
    weight = torch.arange(6.0)
    with AsyncCheckpointSaver() as saver:
        saver.save_async({"w": weight, "it": 3}, tmp_path / "c.pt")
        weight.zero_()
    state = load_checkpoint(tmp_path / "c.pt")
    assert state["it"] == 3
    assert torch.equal(state["w"], torch.arange(6.0))
