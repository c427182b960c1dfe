import pytest
import torch
from checkpoint_states import same

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def test_cuda_tensors_are_saved_as_they_were_at_the_call(tmp_path):
    tensors = [torch.randn(1000, 100, device="cuda") for _ in range(20)]
    state = {"cuda": tensors, "half": tensors[0].half(), "view": tensors[0][3:5], "cpu": torch.ones(3)}
    expected = {"cuda": [t.cpu() for t in tensors], "half": state["half"].cpu(), "view": state["view"].cpu(), "cpu": torch.ones(3)}
    with AsyncCheckpointSaver(full_every=2) as saver:
        for i in range(4):
            path = saver.save_async(state, tmp_path / f"c_{i}.pt", i < 3)
            if i == 3:
                for tensor in tensors:
                    tensor.zero_()
    assert same(load_checkpoint(tmp_path / "c_1.pt"), expected)
    assert same(load_checkpoint(path), expected)


def test_tensors_go_where_map_location_says(tmp_path):
    with AsyncCheckpointSaver() as saver:
        path = saver.save_async({"a": torch.ones(3, device="cuda"), "b": torch.ones(3)}, tmp_path / "c.pt")
    assert load_checkpoint(path)["a"].device.type == "cpu"
    home = load_checkpoint(path, map_location=None)
    assert home["a"].device.type == "cuda" and home["b"].device.type == "cpu"
    assert load_checkpoint(path, map_location="cuda")["b"].device.type == "cuda"


def test_a_plain_file_of_cuda_tensors_opens_on_the_cpu(tmp_path):
    torch.save({"a": torch.ones(3, device="cuda")}, tmp_path / "c.pt")
    assert load_checkpoint(tmp_path / "c.pt")["a"].device.type == "cpu"
