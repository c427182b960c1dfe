"""Rollouts queued on a stream beside the learner's: the order of things, on any machine; the numbers, on a GPU."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

from slipstream.collectors import PipelinedDataCollector, SyncDataCollector, pipelined


class Counted(nn.Module):
    """Says how often it was updated."""

    def __init__(self) -> None:
        super().__init__()
        self.updates = nn.Parameter(torch.zeros(()))

    def forward(self, observation):
        n = len(observation["count"])
        return {"action": torch.zeros(n, 1, device=self.updates.device), "seen": self.updates.detach().expand(n)}


class FakeStream:
    """Enough of a CUDA stream to see who waits for whom."""

    log: list[str] = []

    def __init__(self, device=None, priority=0, name="side"):
        self.device, self.name = device, name

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event):
        self.log.append(f"{self.name} waits for {event}")

    def record_event(self):
        self.log.append(f"{self.name} done")
        return f"{self.name}'s event"


@pytest.fixture
def fake_streams(monkeypatch):
    """The stream lane on a CPU: everything is done when it is queued."""
    learner = FakeStream(name="learner")
    FakeStream.log = []
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: learner)
    monkeypatch.setattr(torch.cuda, "stream", lambda s: contextlib.nullcontext())
    monkeypatch.setattr(pipelined, "queues_on_stream", lambda base: True)
    return FakeStream.log


def test_rollouts_are_queued_between_publish_and_update(counter_env, fake_streams):
    policy = Counted()
    base = SyncDataCollector(counter_env(3), policy, 12, return_same_td=True)
    with PipelinedDataCollector(base) as collector:
        places, seen = set(), []
        for _ in range(5):
            batch = collector.rollout()
            fake_streams.append("update")
            seen.append(int(batch["policy_version"][0, 0]))
            assert torch.equal(batch["seen"], batch["policy_version"].float())
            places.add(batch["reward"].data_ptr())
            with torch.no_grad():
                policy.updates.add_(1)
            collector.publish()
    assert seen == [0, 0, 1, 2, 3]
    assert len(places) == 1
    steady = ["learner waits for side's event", "side waits for learner", "side done", "update"]
    assert fake_streams[-4:] == steady


def test_a_resumed_stream_continues_the_same(counter_env, fake_streams):
    def build():
        policy = Counted()
        base = SyncDataCollector(counter_env(3), policy, 12, return_same_td=True)
        return policy, PipelinedDataCollector(base)

    def batches(policy, collector, count):
        found = []
        for _ in range(count):
            found.append(collector.rollout().clone())
            with torch.no_grad():
                policy.updates.add_(1)
        return found

    uninterrupted = batches(*build(), 6)
    policy, collector = build()
    batches(policy, collector, 3)
    state, weights = collector.state_dict(), policy.state_dict()
    other, resumed = build()
    other.load_state_dict(weights)
    resumed.load_state_dict(state)
    for want, got in zip(uninterrupted[3:], batches(other, resumed, 3), strict=True):
        assert all(torch.equal(want[key], got[key]) for key in want.keys(True, True))


def test_an_error_while_queueing_comes_at_its_batch(counter_env, fake_streams):
    base = SyncDataCollector(counter_env(3), Counted(), 12, return_same_td=True)
    collector = PipelinedDataCollector(base)
    advance, calls = base.env._advance, iter(range(100))
    base.env._advance = lambda action: 1 / 0 if next(calls) == 5 else advance(action)
    collector.rollout()
    with pytest.raises(ZeroDivisionError):
        collector.rollout()
    assert int(collector.rollout()["policy_version"][0, 0]) == 0
    collector.shutdown()


# -- on a GPU ----------------------------------------------------------------------------------------------------------

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("on_policy", [False, True])
def test_batches_on_a_gpu_are_of_their_version(counter_env, on_policy):
    policy = Counted().cuda()
    base = SyncDataCollector(counter_env(64, "cuda"), policy, 64 * 16, return_same_td=True)
    wrong = torch.zeros((), device="cuda")
    with PipelinedDataCollector(base, on_policy=on_policy) as collector:
        seen = []
        for _ in range(12):
            batch = collector.rollout(check=False)
            torch.cuda._sleep(2_000_000)  # an update that takes longer than the host needs to queue it
            wrong += (batch["seen"] != batch["policy_version"]).sum()
            seen.append(batch["policy_version"][0, 0].clone())
            with torch.no_grad():
                policy.updates.add_(1)
            collector.publish()
    assert [int(v) for v in seen] == [max(0, k - (0 if on_policy else 1)) for k in range(12)]
    assert int(wrong) == 0


@pytest.mark.gpu
@CUDA
def test_a_cpu_env_s_batches_arrive_on_the_gpu(counter_env, policy):
    plain = SyncDataCollector(counter_env(8), policy, 64)
    with PipelinedDataCollector(SyncDataCollector(counter_env(8), policy, 64), device="cuda") as collector:
        for _ in range(4):
            want, got = plain.rollout(), collector.rollout()
            assert got.device.type == "cuda"
            assert all(torch.equal(want[key], got[key].cpu()) for key in want.keys(True, True))
            places = {
                got[key].untyped_storage().data_ptr()
                for key in (("observation", "count"), ("next", "observation", "count"))
            }
            assert len(places) == 1


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("form", ["plain", "graphs"])
def test_training_on_a_gpu_repeats_in_every_form(tmp_path, form):
    from slipstream import train
    from slipstream.checkpoint import load_checkpoint
    from slipstream.config.compose import load_train

    words = f"""env.num_envs=64 total_frames=40960 eval_interval=0 device=cuda quiet=true wandb.mode=disabled
        collect.pipeline=on compile={"off" if form == "plain" else "auto"} root={tmp_path}"""

    def weights(name):
        folder = train.run(load_train([*words.split(), f"name={name}"]))
        return load_checkpoint(folder.checkpoints)["algo"]["policy"]

    first, again = weights("first"), weights("again")
    assert all(torch.equal(first[name], again[name]) for name in first)
