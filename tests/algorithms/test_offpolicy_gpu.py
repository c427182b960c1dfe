"""On a GPU: runs go through, and a gradient step never waits for the device."""

from __future__ import annotations

import shlex

import pytest
import torch

from slipstream import train
from slipstream.config.compose import load_train
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

WORDS = shlex.split("""
    env.num_envs=64 env.num_obstacles=20 env_dyn.num_obstacles=8 env.map_half_m=8 device=cuda quiet=true
    wandb.mode=disabled algo.rollout_steps=8 algo.updates=4 algo.batch_size=64 algo.warmup=1000
""")
RUNS = {"dqn": ["env.actions=discrete"], "sac": [], "td3": []}


@pytest.mark.parametrize("algo", RUNS)
def test_a_run_learns_and_resumes(tmp_path, algo):
    words = [f"algo={algo}", *WORDS, *RUNS[algo], "total_frames=3072", "eval_interval=0", f"root={tmp_path}"]
    folder = train.run(load_train(words))
    train.run(load_train([f"resume={folder.path}", "total_frames=4096"]))
    assert [row["replay/updates"] for row in read_metrics(folder.path)][-1] > 12


@pytest.mark.parametrize("algo", RUNS)
def test_no_gradient_step_waits_for_the_device(algo):
    job = Trainer(load_train([f"algo={algo}", *WORDS, *RUNS[algo], "algo.max_grad_norm=1.0", "algo.n_step=2"]))
    for _ in range(4):
        job.learner.update(job.collector.rollout())
    drawn = job.learner.buffer.sample(4 * 64, n_step=2)
    job.learner.algo.update(drawn, 4)
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        job.learner.algo.update(drawn, 4)
    finally:
        torch.cuda.set_sync_debug_mode(before)
