"""One iteration: what `Trainer.step` does, who calls it, and how its metrics are read."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import TINY

from slipstream import Trainer, train
from slipstream.cli.bench import measure
from slipstream.config.compose import load_train
from slipstream.training.outputs import ReadBack
from slipstream.training.tuning import TrainingTrial, choose_sizes

STEP = [*TINY, "total_frames=192", "save_interval=100"]


def test_a_step_collects_learns_and_publishes():
    trainer = Trainer(load_train(STEP))
    published, seen = [], []
    trainer.collector.publish = lambda: published.append(len(seen))
    before = torch.cat([p.detach().flatten().clone() for p in trainer.policy.parameters()])
    result = trainer.step(0.5, seen.append)
    assert published == [1]  # inspected first: afterwards the memory may be written again
    assert seen[0]["reward"].data_ptr() == result.batch.reward.data_ptr() and seen[0].shape == (8, 8)
    assert trainer.collector.frames == trainer.frames_per_batch == 64
    assert not torch.equal(before, torch.cat([p.detach().flatten() for p in trainer.policy.parameters()]))
    assert {"loss/policy", "kl", "bad_actions", "episodes"} <= set(result.metrics)
    values = {name: x.tolist() for name, x in result.metrics.items()}
    metrics = trainer.logged_metrics(values)
    assert metrics["kl"] == values["kl"] and "episode/count" in metrics and "bad_actions" not in metrics


def test_a_loss_that_is_not_finite_ends_with_the_remedy():
    trainer = Trainer(load_train(STEP))
    values = {name: x.tolist() for name, x in trainer.step().metrics.items()}
    with pytest.raises(FloatingPointError, match="loss/value is not a number.*algo.learning_rate="):
        trainer.logged_metrics(values | {"loss/value": float("nan")})


class Recorded(Exception):
    """The replacement was called."""


def run_training(tmp_path):
    train.run(load_train([*STEP, f"root={tmp_path}"]))


def tune(tmp_path):
    choose_sizes(load_train([*STEP, "env.num_envs=auto"]), lambda line: None)


def advise(tmp_path):
    TrainingTrial(load_train(STEP))


def bench(tmp_path):
    measure(load_train(STEP), lambda cfg, device: Trainer(cfg), torch.device("cpu"))


@pytest.mark.parametrize("caller", [run_training, tune, advise, bench])
def test_everything_that_trains_calls_step(caller, tmp_path, monkeypatch):
    def replacement(self, *args, **settings):
        raise Recorded

    monkeypatch.setattr(Trainer, "step", replacement)
    with pytest.raises(Recorded):
        caller(tmp_path)


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
