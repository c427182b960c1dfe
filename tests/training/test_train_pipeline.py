"""Trainings whose batches are collected beside the learner: the same run each time, also when it was stopped in
between."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import TINY, differences, run_words

from slipstream import train
from slipstream.checkpoint import load_checkpoint
from slipstream.collectors import PipelinedDataCollector
from slipstream.config.compose import load_train
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer

WORDS = [word for word in TINY if not word.startswith(("algo.", "eval_interval"))]
WORDS += ["algo.rollout_steps=8", "total_frames=512", "save_interval=2", "eval_interval=3"]
PPO = ["algo.minibatches=4", "algo.epochs=2"]
SAC = ["algo=sac", "algo.updates=4", "algo.warmup=64", "algo.batch_size=16"]


def run(root, name, mode, *words):
    return run_words(root, name, *WORDS, f"collect.pipeline={mode}", *words)


def state(folder):
    found = load_checkpoint(folder.checkpoints)
    return {k: v for k, v in found.items() if k not in ("config", "rng", "trained_s")}


@pytest.mark.parametrize(("mode", "words"), [("on", SAC), ("on_policy", PPO)])  # two_ranks.py has PPO with `on`
def test_a_pipelined_run_repeats_and_resumes_bit_for_bit(tmp_path, mode, words):
    whole = run(tmp_path, "whole", mode, *words)
    again = run(tmp_path, "again", mode, *words, "collect.prefetch_count=1")
    part = run(tmp_path, "part", mode, *words, "total_frames=256")
    train.run(load_train([f"resume={part.path}", "total_frames=512"]))
    assert differences(state(whole), state(again)) == []
    assert differences(state(whole), state(part)) == []
    rows = read_metrics(whole.path)
    assert [row["frames"] for row in rows] == [64 * (i + 1) for i in range(8)]
    assert any("eval/success" in row for row in rows)


def test_late_data_have_ratios_other_than_one():
    """The KL of the first minibatch is 0 by on-policy data; by older data as well, since the clip is around the present
    weights."""
    job = Trainer(load_train([*WORDS, *PPO, "collect.pipeline=on", "algo.minibatches=1", "algo.epochs=1"]))
    with job.collector as collector:
        assert isinstance(collector, PipelinedDataCollector)
        importance = []
        for _ in range(3):
            batch = collector.rollout()
            data = job.learner.prepare(batch)
            acted = batch["log_prob"].transpose(0, 1).flatten()
            valid = data["weight"] > 0
            importance.append(float((data["log_prob"] - acted)[valid].abs().max()))
            kl = job.learner.learn(data)["kl"]
            assert abs(float(kl)) < 1e-6
            job.collector.publish()
    assert importance[0] < 1e-4  # the first batch is not late
    assert min(importance[1:]) > 1e-4


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_a_closed_training_gives_its_threads_back(order):
    words = [*WORDS, *PPO, "collect.pipeline=on", "threads=0"]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for job in [Trainer(load_train(words)) for _ in range(2)][::order]:
            job.close()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_values_of_the_past_are_read_in_the_units_of_the_past():
    job = Trainer(load_train([*WORDS, *PPO, "collect.pipeline=on"]))
    norm = job.policy.value_norm
    with job.collector as collector:
        batch = collector.rollout()
        with torch.no_grad():  # what an update does to the statistics, and more
            norm.running_mean.fill_(30.0)
            norm.running_mean_sq.fill_(30.0**2 + 7.0**2)
            norm.debiasing_term.fill_(1.0)
        before = batch["value"].transpose(0, 1).flatten()  # collected when mean and deviation were 0 and 1
        data = job.learner.prepare(batch)
        assert torch.allclose(data["value"], (before - 30.0) / 7.0, atol=1e-4)


@pytest.mark.parametrize(("mode", "compress"), [("off", "all"), ("on", "lidar")])
def test_compressed_batches_train_to_the_same_weights(tmp_path, mode, compress):
    plain, packed = (
        run(tmp_path, c, mode, *PPO, "total_frames=256", f"collect.compress={c}") for c in ("off", compress)
    )
    assert differences(state(plain)["algo"], state(packed)["algo"]) == []
    counts = [[row["episode/count"] for row in read_metrics(folder.path)] for folder in (plain, packed)]
    assert counts[0] == counts[1]
