"""`Trainer.step` is the one iteration: the training, the size tuner, the advisor and `bench train` all run it."""

from __future__ import annotations

import pytest
import torch

from slipstream import train
from slipstream.cli.bench.train import measure
from slipstream.config.compose import load_train
from slipstream.training.trainer import Trainer
from slipstream.training.tuning import TrainingTrial, choose_sizes

TINY = [
    *("env.num_envs=4", "env.num_obstacles=0", "env.dyn.num_obstacles=0", "algo.rollout_steps=4"),
    *("algo.minibatches=2", "algo.epochs=1", "model.encoder=dict", "model.part=8", "model.trunk=[8]", "device=cpu"),
    *("total_frames=48", "eval_interval=0", "quiet=true", "wandb.mode=disabled", "threads=1"),
]


class Recorded(Exception):
    """The replacement was called."""


def run_training(tmp_path):
    train.run(load_train([*TINY, f"root={tmp_path}"]))


def tune(tmp_path):
    choose_sizes(load_train([*TINY, "env.num_envs=auto"]), lambda line: None)


def advise(tmp_path):
    TrainingTrial(load_train(TINY))


def bench(tmp_path):
    measure(load_train(TINY), "plain", lambda cfg, device: Trainer(cfg), torch.device("cpu"))


@pytest.mark.parametrize("caller", [run_training, tune, advise, bench])
def test_everything_that_trains_calls_step(caller, tmp_path, monkeypatch):
    def replacement(self, *args, **settings):
        raise Recorded

    monkeypatch.setattr(Trainer, "step", replacement)
    with pytest.raises(Recorded):
        caller(tmp_path)
