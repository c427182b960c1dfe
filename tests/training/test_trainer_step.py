"""One iteration: what `Trainer.step` does, and how its metrics are read."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import TINY

from slipstream import Trainer
from slipstream.config.compose import load_train

WORDS = [*TINY, "total_frames=192", "save_interval=100"]


def test_a_step_collects_learns_and_publishes():
    trainer = Trainer(load_train(WORDS))
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
    trainer = Trainer(load_train(WORDS))
    values = {name: x.tolist() for name, x in trainer.step().metrics.items()}
    with pytest.raises(FloatingPointError, match="loss/value is not a number.*algo.learning_rate="):
        trainer.logged_metrics(values | {"loss/value": float("nan")})
