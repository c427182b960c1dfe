"""A run that was stopped and resumed goes on as if it had not been."""

import random

import numpy as np
import pytest
import torch

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint


class Training:
    """A small training loop whose data come from three random generators."""

    def __init__(self):
        torch.manual_seed(0)
        random.seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 32)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 100)
        self.numpy = np.random.default_rng(0)
        self.iteration = 0

    def step(self):
        x = torch.randn(128, 32) + random.random() + self.numpy.random()
        loss = (self.model(x) - x.flip(1)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.iteration += 1
        return loss.item()

    def state(self):
        parts = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "scheduler")}
        rng = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": self.numpy.bit_generator.state}
        return {**parts, "rng": rng, "iteration": self.iteration}

    def resume(self, state):
        for name in ("model", "optimizer", "scheduler"):
            getattr(self, name).load_state_dict(state[name])
        torch.set_rng_state(state["rng"]["torch"])
        random.setstate(state["rng"]["python"])
        self.numpy.bit_generator.state = state["rng"]["numpy"]
        self.iteration = state["iteration"]


@pytest.mark.parametrize("form", [True, "lz4", False, "difference"])
def test_a_resumed_run_is_the_same_run_in_every_bit(form, tmp_path):
    training = Training()
    with AsyncCheckpointSaver(full_every=2 if form == "difference" else 1) as saver:
        for _ in range(10):
            training.step()
        if form == "difference":
            saver.save_async(training.state(), tmp_path / "c_0.pt")
            training.step()
        path = saver.save_async(training.state(), tmp_path / "c_1.pt", True if form == "difference" else form)
        losses = [training.step() for _ in range(15)]
    again = Training()
    again.resume(load_checkpoint(path))
    assert [again.step() for _ in range(15)] == losses
    assert all(
        torch.equal(a, b)
        for a, b in zip(training.model.state_dict().values(), again.model.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("moments", ["int8", "bf16"])
def test_training_resumes_from_approximate_moments(moments, tmp_path):
    training = Training()
    for _ in range(60):
        training.step()
    with AsyncCheckpointSaver(moments=moments) as saver:
        path = saver.save_async(training.state(), tmp_path / "c.pt")
        exact = [training.step() for _ in range(60)]
    again, cold = Training(), Training()
    state = load_checkpoint(path)
    again.resume(state)
    resumed = [again.step() for _ in range(60)]
    state["optimizer"]["state"] = {}
    cold.resume(state)  # what losing the moments would do
    restarted = [cold.step() for _ in range(60)]
    assert resumed[0] == exact[0]  # the weights are exact
    worst = max(abs(a - b) / b for a, b in zip(resumed, exact, strict=True))
    assert worst < 0.05 and worst < 0.5 * max(abs(a - b) / b for a, b in zip(restarted, exact, strict=True))
