import pytest
import torch
from helpers.states import same

from slipstream.algorithms.execution.graphs import forbid_sync
from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.storage.staging import Staging
from slipstream.storage.tree import flatten

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def test_cuda_tensors_are_saved_as_they_were_at_the_call(tmp_path):
    tensors = [torch.randn(1000, 100, device="cuda") for _ in range(20)]
    state = {"cuda": tensors, "half": tensors[0].half(), "view": tensors[0][3:5], "cpu": torch.ones(3)}
    expected = {
        "cuda": [t.cpu() for t in tensors],
        "half": state["half"].cpu(),
        "view": state["view"].cpu(),
        "cpu": torch.ones(3),
    }
    with AsyncCheckpointSaver(full_every=2) as saver:
        for i in range(4):
            path = saver.save_async(state, tmp_path / f"c_{i}.pt", i < 3)
            if i == 3:
                for tensor in tensors:
                    tensor.zero_()
    assert same(load_checkpoint(tmp_path / "c_1.pt"), expected)
    assert same(load_checkpoint(path), expected)


@pytest.mark.parametrize("options", [{}, {"full_every": 3}])
def test_every_snapshot_holds_its_own_moment(options, tmp_path):
    weight, steps = torch.zeros(4_000_000, device="cuda"), torch.zeros((), device="cuda")
    with AsyncCheckpointSaver(max_queue_size=2, **options) as saver:
        for i in range(12):
            weight.fill_(i)
            steps.add_(1)
            saver.save_async({"w": weight, "steps": steps}, tmp_path / f"c_{i}.pt", i % 4 != 3)
            weight.fill_(-1)  # queued right behind the copy, while the bus still carries it
            torch.cuda._sleep(1_000_000)
    for i in range(12):
        state = load_checkpoint(tmp_path / f"c_{i}.pt")
        assert state["w"].unique().tolist() == [i] and state["steps"].item() == i + 1


def test_work_on_another_stream_is_in_the_snapshot(tmp_path):
    weight, side = torch.zeros(4_000_000, device="cuda"), torch.cuda.Stream()
    with AsyncCheckpointSaver() as saver:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)
            weight.fill_(7)
        torch.cuda.current_stream().wait_stream(side)
        path = saver.save_async({"w": weight}, tmp_path / "c.pt")
    assert load_checkpoint(path)["w"].unique().tolist() == [7]


def test_pinned_memory_is_taken_once_and_used_again(tmp_path):
    state = {"w": torch.ones(1_000_000, device="cuda"), "cpu": torch.ones(10)}
    staging, addresses = Staging(), set()
    for i in range(5):
        state["w"].fill_(i)
        buffer = staging.snapshot(flatten(state)[1])
        host = buffer.fetch()
        assert buffer.host.is_pinned() and (host.view("f4") == i).sum() >= 1_000_000
        addresses.add(buffer.host.data_ptr())
        staging.release(buffer)
    assert len(addresses) == 1
    held = staging.snapshot(flatten(state)[1])  # one is still being written: the next gets memory of its own
    assert staging.snapshot(flatten(state)[1]).host.data_ptr() != held.host.data_ptr()


def test_a_save_beside_a_step_that_must_not_wait_is_no_wait(tmp_path):
    weight = torch.ones(1_000_000, device="cuda")
    with forbid_sync(), AsyncCheckpointSaver() as saver:  # for all threads
        path = saver.save_async({"w": weight}, tmp_path / "c.pt")
    assert load_checkpoint(path)["w"].unique().tolist() == [1]


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
