"""`Trainer.step` is the one iteration: train, the size tuner, the advisor and `bench train` all call it."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
import torch

from slipstream import Trainer, train
from slipstream.cli.bench.train import measure
from slipstream.config.compose import load_train
from slipstream.training.tuning import TrainingProbe, choose_sizes

TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    algo.training_frame_num=8 algo.minibatches=4 algo.epochs=1 model.encoder=dict model.part=8 model.trunk=[16] env.num_worlds=2
    total_frames=192 save_interval=100 eval_interval=0 device=cpu threads=1 quiet=true wandb.mode=disabled
""")


class Recorder:
    """In the place of `Trainer.step`: counts the calls, and runs the real one."""

    def __init__(self) -> None:
        self.calls = 0
        self._step = Trainer.step

    def __get__(self, trainer, kind):
        def step(*args, **kwargs):
            self.calls += 1
            return self._step(trainer, *args, **kwargs)

        return step


@pytest.fixture
def recorder(monkeypatch):
    found = Recorder()
    monkeypatch.setattr(Trainer, "step", found)
    return found


def run_training(tmp_path):
    train.run(load_train([*TINY, f"root={tmp_path}"]))


def run_tuner(tmp_path):
    choose_sizes(replace(load_train(TINY), auto=["algo.minibatches"]), log)


def run_advisor(tmp_path):
    probe = TrainingProbe(TINY)
    trial = probe.open({})
    trial.run(0.0)
    trial.close()
    probe.close()


def run_bench(tmp_path):
    measure(load_train(TINY), "plain", torch.device("cpu"))


def log(text):
    pass


@pytest.mark.parametrize("command", [run_training, run_tuner, run_advisor, run_bench])
def test_every_iteration_is_a_trainers_step(command, recorder, tmp_path):
    updates = []
    learn = torch.optim.Adam.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", lambda self, *args: updates.append(1) or learn(self, *args))
        command(tmp_path)
    assert recorder.calls >= 2
    outside = len(updates) / 4 - recorder.calls  # 4 minibatches of one epoch; bench times the update alone as well
    assert outside <= 0 or command is run_bench


def test_a_step_collects_learns_and_publishes():
    trainer = Trainer(load_train(TINY))
    published, seen = [], []
    trainer.collector.publish = lambda: published.append(len(seen))
    before = torch.cat([p.detach().flatten().clone() for p in trainer.policy.parameters()])
    result = trainer.step(0.5, seen.append)
    assert result.batch is seen[0] and published == [1]  # inspected first: afterwards the memory may be written again
    assert trainer.collector.frames == trainer.frames_per_batch == 64
    assert not torch.equal(before, torch.cat([p.detach().flatten() for p in trainer.policy.parameters()]))
    assert {"loss/policy", "kl", "bad_actions", "episodes"} <= set(result.metrics)
    values = {name: x.tolist() for name, x in result.metrics.items()}
    metrics = trainer.read_metrics(values)
    assert metrics["kl"] == values["kl"] and "episode/count" in metrics and "bad_actions" not in metrics


def test_a_loss_that_is_not_finite_ends_a_training_with_the_remedy():
    trainer = Trainer(load_train(TINY))
    values = {name: x.tolist() for name, x in trainer.step().metrics.items()}
    with pytest.raises(FloatingPointError, match="loss/value is not a number.*algo.learning_rate="):
        trainer.read_metrics(values | {"loss/value": float("nan")})
