"""Collectors: the batch and its keys, the frames that only reset, `next` as the row after, pipelined and compressed ones beside the plain."""

from __future__ import annotations

import pytest
import torch
from small_worlds import CounterEnv, act, small_navigation
from tensordict import TensorDict

from slipstream import CompressedDataCollector, PipelinedDataCollector, SyncDataCollector
from slipstream.models import build_policy

OBSERVATIONS = {"state": (8,), "lidar": (1, 36, 4), "direction": (1, 3), "dynamic_obstacle": (1, 5, 10)}


def policy_for(env):
    torch.manual_seed(0)
    return build_policy(env.observation_spec, env.action_spec)


def same(a, b) -> None:
    keys = set(a.keys(True, True)) - {"policy_version"}
    assert keys == set(b.keys(True, True)) - {"policy_version"}
    for key in keys:
        assert torch.equal(a[key], b[key]), key


def test_keys_and_shapes_of_a_batch():
    env = small_navigation(4)
    batch = SyncDataCollector(env, policy_for(env), 4 * 6).rollout()
    assert isinstance(batch, TensorDict) and batch.batch_size == torch.Size([4, 6])
    for name, shape in OBSERVATIONS.items():
        assert batch["observation", name].shape == batch["next", "observation", name].shape == (4, 6, *shape)
        assert torch.equal(batch["next", "observation", name][:, :-1], batch["observation", name][:, 1:])
    assert batch["action"].shape == (4, 6, 3) and batch["reward"].shape == (4, 6)
    for name in ("log_prob", "value", "reward"):
        assert batch[name].shape == (4, 6) and batch[name].dtype == torch.float32
    assert torch.equal(batch["next", "value"][:, :-1], batch["value"][:, 1:])
    for name in ("terminated", "truncated", "done", "valid"):
        assert batch[name].shape == (4, 6) and batch[name].dtype == torch.bool
    assert batch["info", "success"].shape == (4, 6)


def test_the_frames_of_a_batch_are_those_of_the_env():
    collector = SyncDataCollector(CounterEnv(3), act, 3 * 8, total_frames=72)
    batch = collector.rollout()
    # env 0 has episodes of 2 steps, 1 of 3, 2 of 4; the step after an end only resets
    assert batch["valid"].tolist() == [
        [True, True, False, True, True, False, True, True],
        [True, True, True, False, True, True, True, False],
        [True, True, True, True, False, True, True, True],
    ]
    assert batch["terminated"][0].nonzero().flatten().tolist() == [1, 4, 7] and batch["truncated"][
        1
    ].nonzero().flatten().tolist() == [2, 6]
    assert torch.equal(batch["done"], batch["terminated"] | batch["truncated"])
    assert batch["observation", "count"][0, :, 2].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert batch["next", "observation", "count"][0, :, 2].tolist() == [1, 2, 0, 1, 2, 0, 1, 2]
    assert batch["reward"][2].tolist() == [21, 22, 23, 24, 0, 21, 22, 23]
    assert batch["value"][1].tolist() == [0.5, 1.5, 2.5, 3.5, 0.5, 1.5, 2.5, 3.5]
    assert batch["next", "value"][1].tolist() == [1.5, 2.5, 3.5, 0.5, 1.5, 2.5, 3.5, 0.5]
    assert batch["info", "score"][2, 3] == 204
    found = collector.episodes.pop()
    assert found["count"] == 6 and found["length"] == pytest.approx((3 * 2 + 2 * 3 + 4) / 6)
    assert found["return"] == pytest.approx((3 * (1 + 2) + 2 * (11 + 12 + 13) + (21 + 22 + 23 + 24)) / 6)
    assert collector.frames == 24 and len(list(collector)) == 2 and collector.frames == 72
    assert collector.episodes.pop()["count"] > 0 and collector.episodes.pop() == {"count": 0.0}


def test_pipelined_on_policy_is_the_plain_loop():
    def train(pipelined: bool):
        policy = torch.nn.Linear(3, 1)
        torch.nn.init.constant_(policy.weight, 0.01)
        torch.nn.init.constant_(policy.bias, 0.0)

        class Policy(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = policy

            def forward(self, observation):
                return {"action": self.layer(observation["count"]).tanh()}

        module = Policy()
        base = SyncDataCollector(CounterEnv(3), module, 3 * 4, total_frames=3 * 4 * 5)
        collector = PipelinedDataCollector(base, on_policy=True) if pipelined else base
        batches = []
        with collector:
            for batch in collector:
                batches.append(batch.clone())
                with torch.no_grad():
                    policy.weight.add_(0.02)
                if pipelined:
                    collector.publish()
        return batches

    plain, beside = train(False), train(True)
    assert len(plain) == len(beside) == 5
    for number, (a, b) in enumerate(zip(plain, beside, strict=True)):
        same(a, b)
        assert (b["policy_version"] == number).all()


@pytest.mark.parametrize("keys", [None, ["lidar"]])
def test_a_compressed_batch_decodes_to_the_plain_one(keys):
    env = small_navigation(4)
    policy = policy_for(env)
    torch.manual_seed(3)
    plain = SyncDataCollector(small_navigation(4), policy, 4 * 8).rollout()
    torch.manual_seed(3)
    compressed = CompressedDataCollector(
        SyncDataCollector(env, policy, 4 * 8), compression_level=1, keys=keys
    ).rollout()
    decoded = compressed.decode()
    for key in plain.keys(True, True):
        assert torch.equal(decoded[key], plain[key]), key
    assert compressed.nbytes < compressed.raw_nbytes and compressed.ratio > 1
    rows = torch.tensor([0, 9, 31, 5])
    part = compressed.minibatch(rows)
    flat = plain.reshape(-1)
    for name in OBSERVATIONS:
        assert torch.equal(part["observation", name], flat["observation", name][rows])
    assert torch.equal(part["action"], flat["action"][rows])
