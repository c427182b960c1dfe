"""Tiny runs: their words, and how they are stopped and compared."""

from __future__ import annotations

import shlex

import torch

from slipstream import Trainer, train
from slipstream.checkpoint import load_checkpoint
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.training.metrics_log import read_metrics

# Iterations of 64 frames, of 0.32 s each; episodes of at most 20 of them, so that many end; a map so small that the
# drones, which start outside of it, come near what stands and moves there.
TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20
    env.max_episode_steps=400 algo.rollout_steps=8 algo.minibatches=4 algo.epochs=1
    model.encoder=dict model.part=8 model.trunk=[16] eval.num_drones=2 eval.map_seeds=[1] eval.max_steps=240
    eval_interval=0 device=cpu threads=1 quiet=true wandb.mode=disabled
""")


def run_words(root, name, *words):
    """Train in this process; return the run folder."""
    return train.run(load_train([*words, f"root={root}", f"name={name}"]))


def refusal(capfd, *words, command="train"):
    """Return the one line with which a command refuses words."""
    assert main([command, *words]) == 2
    text = capfd.readouterr().err.strip()
    assert "\n" not in text
    return text


def at_iteration(monkeypatch, wanted, action):
    """Do `action` in the middle of iteration `wanted`, once."""
    plain, done = Trainer.progress, []

    def progress(job, it, clock):
        if it == wanted and not done:
            done.append(it)
            action()
        return plain(job, it, clock)

    monkeypatch.setattr(Trainer, "progress", progress)


def state_of(folder):
    return load_checkpoint(folder.checkpoints)


def differences(a, b, at=""):
    """Where two states differ in a bit; but for their configurations, the paths in them and the time they took."""
    if isinstance(a, list):
        a, b = dict(enumerate(a)), dict(enumerate(b))
    if isinstance(a, dict):
        keys = [key for key in {**a, **b} if key not in ("config", "trained_s")]
        pairs = [
            (key, differences(a[key], b[key], f"{at}.{key}") if key in a and key in b else [f"{at}.{key}"])
            for key in keys
        ]
        return [place for _, places in pairs for place in places]
    if isinstance(a, torch.Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        return [] if same else [at]
    return [] if a == b else [at]


def rows_of(folder):
    """The metrics without what a clock measured."""
    return [
        {k: v for k, v in row.items() if k not in ("time_s", "fps") and not k.startswith("perf/")}
        for row in read_metrics(folder.path)
    ]
