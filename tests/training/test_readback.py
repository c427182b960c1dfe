import pytest
import torch

from slipstream.training.readback import ReadBack


def test_on_a_cpu_numbers_are_there_at_once():
    readings = ReadBack(torch.device("cpu"))
    numbers, loss = torch.tensor([1.0, 2.0]), torch.tensor(0.5)
    readings.send("first", {"sums": numbers, "loss": loss, "bad": torch.tensor(True)})
    numbers.fill_(9.0)
    loss.fill_(9.0)
    assert readings.take(wait=False) == [("first", {"sums": [1.0, 2.0], "loss": 0.5, "bad": 1.0})]
    assert readings.take(wait=True) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_keeps_the_last_one_back_until_it_is_waited_for():
    readings = ReadBack(torch.device("cuda"))
    numbers = torch.zeros(3, device="cuda", dtype=torch.float64)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for k in range(3):
            readings.send(k, {"sums": numbers.fill_(k)})
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert readings.take(wait=False) == [(0, {"sums": [0.0] * 3}), (1, {"sums": [1.0] * 3})]
    assert readings.take(wait=True) == [(2, {"sums": [2.0] * 3})]
