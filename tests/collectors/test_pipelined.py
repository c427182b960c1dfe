"""Which weights collect which batch, and that nothing but the numbers of batches and updates decides it."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn

from slipstream.collectors import PipelinedDataCollector, SyncDataCollector
from slipstream.models.policy import build_policy


class UpdateCounter(nn.Module):
    """Every weight is the number of updates so far; it says which ones it saw at the beginning and at the end of each
    step."""

    def __init__(self, pause_s: float = 0.0) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.zeros(50)) for _ in range(8)])
        self.register_buffer("share", torch.zeros(()))
        self.pause_s = pause_s

    def forward(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        n = len(observation["count"])
        low = min(float(w.min()) for w in self.weights)
        time.sleep(self.pause_s)
        high = max(float(w.max()) for w in self.weights)
        action = torch.zeros(n, 1)
        return {
            "action": action,
            "low": torch.full((n,), low),
            "high": torch.full((n,), high),
            "share": self.share.expand(n).clone(),
        }


@torch.no_grad()
def learn(policy: UpdateCounter) -> None:
    for weight in policy.weights:
        weight.add_(1.0)
        time.sleep(0.0002)  # an update takes a while, in which the weights belong together in no sense
    policy.share.add_(1.0)


@pytest.fixture
def pipeline(counter_env):
    built = []

    def build(policy, frames=24, total_frames=-1, base=None, **settings):
        built.append(
            PipelinedDataCollector(
                SyncDataCollector(counter_env(3), policy, frames, total_frames, **(base or {})), **settings
            )
        )
        return built[-1]

    yield build
    for collector in built:
        collector.shutdown()


def versions(collector, batches: int, update) -> list[int]:
    seen = []
    for _ in range(batches):
        batch = collector.rollout()
        seen.append(int(batch["policy_version"][0, 0]))
        update()
    return seen


def mode(staleness):
    return {"max_staleness": staleness} if staleness else {"on_policy": True}


@pytest.mark.parametrize("staleness", [0, 1, 2, 3])
@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_staleness_is_exact_for_any_prefetch_count(pipeline, staleness, prefetch):
    policy = UpdateCounter()
    collector = pipeline(policy, prefetch_count=prefetch, **mode(staleness))
    assert versions(collector, 8, lambda: learn(policy)) == [max(0, k - 1 - staleness) for k in range(1, 9)]


@pytest.mark.parametrize("on_policy", [False, True])
@pytest.mark.parametrize("slow", ["env", "learner"])
def test_every_step_acts_with_complete_weights_of_its_version(pipeline, on_policy, slow):
    policy = UpdateCounter(pause_s=0.0005 if slow == "env" else 0.0)
    collector = pipeline(policy, on_policy=on_policy)
    for _ in range(6):
        batch = collector.rollout()
        for name in ("low", "high", "share"):
            assert torch.equal(batch[name], batch["policy_version"].float()), (
                f"{name} of another version than the batch's"
            )
        for _ in range(1 if slow == "env" else 3):
            learn(policy)
        if slow == "learner":  # what counts is how often the learner asked; put the weights back to that number
            with torch.no_grad():
                for weight in policy.weights:
                    weight.sub_(2.0)
                policy.share.sub_(2.0)


def test_a_state_of_older_data_continues_on_policy(pipeline):
    policy = UpdateCounter()
    collector = pipeline(policy)
    versions(collector, 3, lambda: learn(policy))
    twin = pipeline(policy, on_policy=True)
    twin.load_state_dict(collector.state_dict())
    assert versions(twin, 3, lambda: learn(policy)) == [3, 4, 5]


def test_a_loaded_state_is_what_is_saved_next(pipeline):
    collector = pipeline(UpdateCounter())
    collector.rollout()
    state = collector.state_dict()
    collector.rollout()
    collector.load_state_dict(state)
    assert collector.state_dict()["base"]["frames"] == state["base"]["frames"]


def test_publish_starts_the_next_batch_with_present_weights(pipeline):
    policy = UpdateCounter()
    collector = pipeline(policy, on_policy=True)
    collector.rollout()
    learn(policy)
    collector.publish()
    learn(policy)  # later than published: belongs to the version after it
    batch = collector.rollout()
    assert int(batch["policy_version"][0, 0]) == 1
    assert float(batch["high"].max()) == 1.0
    assert collector.rollout()["high"].max() == 2.0


def test_publishing_the_same_update_twice_is_refused(pipeline):
    collector = pipeline(UpdateCounter())
    collector.rollout()
    collector.publish()
    with pytest.raises(RuntimeError, match="once for each batch"):
        collector.publish()


# -- the same run, whatever the timing ---------------------------------------------------------------------------------


def run(counter_env, env_s: float, learner_s: float, resume_at: int = 0, **settings) -> list[Tensor]:
    """Six updates of a policy that explores, by data of the counting env; what was collected and what became of the
    weights."""
    torch.manual_seed(7)
    env = counter_env(3)
    policy = build_policy(env.observation_spec, env.action_spec)
    advance = env._advance

    def slowly(action: Tensor) -> None:
        time.sleep(env_s)
        advance(action)

    env._advance = slowly
    collector = PipelinedDataCollector(SyncDataCollector(env, policy, 3 * 4), seed=5, **settings)
    seen: list[Tensor] = []
    for it in range(6):
        if it and it == resume_at:
            state, weights = collector.state_dict(), {k: v.clone() for k, v in policy.state_dict().items()}
            rng = torch.get_rng_state()
            collector.shutdown()
            env = counter_env(3)
            policy = build_policy(env.observation_spec, env.action_spec)
            policy.load_state_dict(weights)
            collector = PipelinedDataCollector(SyncDataCollector(env, policy, 3 * 4), seed=99, **settings)
            collector.load_state_dict(state)
            torch.set_rng_state(rng)
        batch = collector.rollout()
        time.sleep(learner_s)
        with torch.no_grad():
            for weight in policy.parameters():  # a learner that draws from the global generator, as shuffling does
                weight.add_(0.1 * batch["action"].mean() * torch.rand(weight.shape))
        seen += [batch["action"].clone(), batch["log_prob"].clone(), batch["policy_version"].clone()]
    facts = collector.episodes.pop()
    seen += [p.detach().clone() for p in policy.parameters()] + [
        torch.tensor([facts["count"], facts["return"], collector.frames])
    ]
    collector.shutdown()
    return seen


@pytest.mark.parametrize("on_policy", [False, True])
def test_a_run_repeats_bit_for_bit_whatever_the_timing(counter_env, on_policy):
    first = run(counter_env, 0.0, 0.0, on_policy=on_policy)
    for env_s, learner_s, prefetch in ((0.003, 0.0, 1), (0.0, 0.01, 2), (0.001, 0.004, 4)):
        again = run(counter_env, env_s, learner_s, on_policy=on_policy, prefetch_count=prefetch)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("staleness", [0, 1, 2])
@pytest.mark.parametrize("resume_at", [1, 3])
@pytest.mark.parametrize("env_s", [0.0, 0.003])
def test_a_resumed_run_continues_bit_for_bit(counter_env, staleness, resume_at, env_s):
    uninterrupted = run(counter_env, 0.0, 0.0, **mode(staleness))
    resumed = run(counter_env, env_s, 0.002, resume_at=resume_at, **mode(staleness))
    assert all(torch.equal(a, b) for a, b in zip(uninterrupted, resumed, strict=True))


# -- the rest of the contract ------------------------------------------------------------------------------------------


def test_the_batches_are_those_of_the_base(counter_env, policy, pipeline):
    plain = SyncDataCollector(counter_env(3), policy, 12)
    ahead = pipeline(policy, 12)
    for _ in range(5):
        want, got = plain.rollout(), ahead.rollout()
        assert set(got.keys(True, True)) == set(want.keys(True, True))  # a function has no weights, so no version
        assert all(torch.equal(want[key], got[key]) for key in want.keys(True, True))
        assert plain.episodes.pop() == ahead.episodes.pop()
        assert plain.frames == ahead.frames


def test_iteration_ends_with_total_frames_and_says_so_again(pipeline):
    collector = pipeline(UpdateCounter(), 12, total_frames=60)
    assert len(list(collector)) == 5
    assert list(collector) == []
    with pytest.raises(RuntimeError, match="all its batches"):
        collector.rollout()


def test_a_loop_left_early_continues_where_it_was(pipeline):
    collector = pipeline(UpdateCounter(), 12, total_frames=72)
    next(iter(collector))
    rest = [int(batch["policy_version"][0, 0]) for batch in collector]
    assert rest == [0, 1, 2, 3, 4]


def test_a_base_with_one_memory_is_refused(counter_env):
    base = SyncDataCollector(counter_env(3), UpdateCounter(), 12, return_same_td=True)
    with pytest.raises(ValueError, match="return_same_td=True would overwrite"):
        PipelinedDataCollector(base)


def test_settings_that_cannot_be_are_refused(counter_env):
    base = SyncDataCollector(counter_env(3), UpdateCounter(), 12)
    for settings, message in (({"prefetch_count": 0}, "at least 1"), ({"max_staleness": 0}, "on_policy=True")):
        with pytest.raises(ValueError, match=message):
            PipelinedDataCollector(base, **settings)


def test_what_draws_from_the_global_generator_is_named(pipeline):
    class Draws(UpdateCounter):
        def forward(self, observation):
            return super().forward(observation) | {"action": torch.rand(len(observation["count"]), 1)}

    with pytest.warns(UserWarning, match="global generator"):
        pipeline(Draws()).rollout()
