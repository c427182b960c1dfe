from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from slipstream.collectors import ExplorationType, SyncDataCollector, exploration_type, set_exploration_type
from slipstream.envs.base import BadActionError


def _equal(a: TensorDict, b: TensorDict) -> bool:
    return bool((a == b).all()) and set(a.keys(True, True)) == set(b.keys(True, True))


# -- the batch --------------------------------------------------------------------------------------------------------


def test_the_frames_of_a_batch_are_those_of_the_env(counter_env, policy):
    collector = SyncDataCollector(counter_env(3), policy, 3 * 8, total_frames=72)
    batch = collector.rollout()
    assert isinstance(batch, TensorDict) and batch.batch_size == torch.Size([3, 8])
    # env 0 has episodes of 2 steps, 1 of 3, 2 of 4; the step after an end only resets
    resets = {(0, 2), (0, 5), (1, 3), (1, 7), (2, 4)}
    assert batch["valid"].tolist() == [[(env, step) not in resets for step in range(8)] for env in range(3)]
    assert batch["terminated"].nonzero().tolist() == [[0, 1], [0, 4], [0, 7], [2, 3]]
    assert batch["truncated"].nonzero().tolist() == [[1, 2], [1, 6]]
    assert torch.equal(batch["done"], batch["terminated"] | batch["truncated"])
    assert batch["observation", "count"][0, :, 2].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert batch["next", "observation", "count"][0, :, 2].tolist() == [1, 2, 0, 1, 2, 0, 1, 2]
    assert batch["observation", "trace"].shape == (3, 8, 2, 2) and batch["action"].shape == (3, 8, 1)
    assert batch["reward"][2].tolist() == [21, 22, 23, 24, 0, 21, 22, 23]
    assert batch["value"][1].tolist() == [0.5, 1.5, 2.5, 3.5, 0.5, 1.5, 2.5, 3.5]
    assert batch["next", "value"][1].tolist() == [1.5, 2.5, 3.5, 0.5, 1.5, 2.5, 3.5, 0.5]
    assert batch["info", "score"][2, 3] == 204
    found = collector.episodes.pop()
    assert found["count"] == 6 and found["length"] == pytest.approx((3 * 2 + 2 * 3 + 4) / 6)
    assert found["return"] == pytest.approx((3 * (1 + 2) + 2 * (11 + 12 + 13) + (21 + 22 + 23 + 24)) / 6)
    assert len(list(collector)) == 2 and collector.frames == 72
    assert collector.episodes.pop()["count"] > 0 and collector.episodes.pop() == {"count": 0.0}


@pytest.mark.parametrize("return_same_td", [True, False])
def test_next_is_the_same_memory_one_step_on(counter_env, policy, return_same_td):
    batch = SyncDataCollector(counter_env(3), policy, 12, return_same_td=return_same_td).rollout()
    for key in [("observation", "count"), ("observation", "trace"), ("value",)]:
        now, after = batch[key], batch["next", *key]
        assert after.untyped_storage().data_ptr() == now.untyped_storage().data_ptr()
        assert after[:, :-1].data_ptr() == now[:, 1:].data_ptr()
        row = now[0, 0].numel()
        assert now.untyped_storage().nbytes() == (4 + 1) * 3 * row * now.element_size()  # T + 1 rows of N, not 2 T
        assert now.transpose(0, 1).is_contiguous()


def test_a_policy_that_returns_the_action_only_stores_no_value(counter_env):
    batch = SyncDataCollector(counter_env(2), lambda obs: torch.zeros(2, 1), 4).rollout()
    assert not {"value", "log_prob", ("next", "value")} & set(batch.keys(True))
    assert batch["action"].shape == (2, 2, 1)


def test_further_keys_of_the_policy_keep_their_dtype(counter_env, policy):
    def with_more(obs):
        return {**policy(obs), "loc": obs["trace"][:, 0], "choice": obs["count"][:, 2].long()}

    batch = SyncDataCollector(counter_env(2), with_more, 6).rollout()
    assert batch["loc"].tolist() == batch["observation", "trace"][:, :, 0].tolist()
    assert batch["choice"].dtype == torch.int64
    assert batch["choice"].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_the_last_value_comes_from_the_value_method(counter_env, policy):
    class Critic:
        asked = 0

        def __call__(self, obs):
            self.asked += 1
            return policy(obs)

        def value(self, obs):
            return obs["count"][:, 2] + 1000

    critic = Critic()
    batch = SyncDataCollector(counter_env(2), critic, 6).rollout()
    assert critic.asked == 3
    assert batch["next", "value"].tolist() == [[1.5, 2.5, 1000], [1.5, 2.5, 1003]]


def test_the_policy_may_take_its_observation_apart(counter_env, policy):
    def popping(obs):
        out = policy(obs)
        obs.clear()
        return out

    a = SyncDataCollector(counter_env(2), popping, 8, return_same_td=True)
    b = SyncDataCollector(counter_env(2), policy, 8)
    for _ in range(3):
        assert _equal(a.rollout(), b.rollout())


# -- counting ---------------------------------------------------------------------------------------------------------


def test_iteration_stops_at_total_frames_and_can_continue(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 8, total_frames=20)
    assert sum(batch.numel() for batch in collector) == 24
    assert collector.frames == collector._frames == 24
    assert list(collector.iterator()) == []
    collector.total_frames = 30
    assert len(list(collector)) == 1


def test_fps_is_zero_before_and_positive_after_the_first_rollout(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 8)
    assert collector.fps == collector._fps == 0
    collector.rollout()
    assert collector.fps > 0


@pytest.mark.parametrize(
    ("frames", "message"),
    [(10, "frames_per_batch=10 must be a multiple of num_envs=4: use 8 or 12"), (3, "use 4 or 8"), (0, "use 4 or 8")],
)
def test_frames_per_batch_that_does_not_fit_says_what_would(counter_env, policy, frames, message):
    with pytest.raises(ValueError, match=message):
        SyncDataCollector(counter_env(4), policy, frames)


@pytest.mark.parametrize("wrong", [{"total_frames": 0}, {"total_frames": -2}])
def test_senseless_counts_are_refused(counter_env, policy, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SyncDataCollector(counter_env(4), policy, 8, **wrong)


# -- wrong policies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda out: {**out, "value": out["value"].unsqueeze(1)},
            r"'value' must have shape \[2\], not \[2, 1\]: squeeze",
        ),
        (
            lambda out: {**out, "logits": torch.zeros(3, 2)},
            r"'logits' must be a tensor of shape \[2, ...\], not .*\[3, 2\]",
        ),
        (lambda out: {**out, "reward": out["value"]}, "'reward', a key that the collector fills"),
        (lambda out: (out["action"], out["value"]), "key 'action', not tuple"),
    ],
)
def test_a_policy_that_breaks_the_protocol_is_refused(counter_env, policy, change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SyncDataCollector(counter_env(2), lambda obs: change(policy(obs)), 4).rollout()


def test_nan_actions_raise_once_and_collecting_continues(counter_env, policy):
    bad = [True]

    def sometimes(obs):
        out = policy(obs)
        return {**out, "action": torch.full_like(out["action"], torch.nan)} if bad[0] else out

    collector = SyncDataCollector(counter_env(2), sometimes, 8)
    with pytest.raises(BadActionError, match="2 of 2 environments"):
        collector.rollout()
    bad[0] = False
    batch = collector.rollout()
    assert batch["observation", "trace"].isfinite().all()
    # The frames of the refused batch were flown: the next one continues them. Env 0: 0 1 2 | 0 1 2 ...
    assert batch["observation", "count"][0, :, 1:].tolist() == [[1, 1], [1, 2], [2, 0], [2, 1]]


def test_rollout_without_check_reads_nothing_back(counter_env):
    collector = SyncDataCollector(counter_env(2), lambda obs: torch.full((2, 1), torch.nan), 4)
    assert collector.rollout(check=False)["action"].isnan().all()
    with pytest.raises(BadActionError):
        collector.check()
    collector.check()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError])
def test_an_exception_in_the_policy_leaves_the_collector_usable(counter_env, policy, interruption):
    fuse = [3]

    def failing(obs):
        fuse[0] -= 1
        if fuse[0] == 0:
            raise interruption
        return policy(obs)

    collector = SyncDataCollector(counter_env(2), failing, 8, return_same_td=True)
    with pytest.raises(interruption):
        collector.rollout()
    assert exploration_type() is ExplorationType.RANDOM
    assert collector.frames == 0
    batch = collector.rollout()
    assert collector.frames == 8
    # The broken batch is dropped and all envs begin a new episode; nothing of the old one is left in the statistics.
    assert batch["observation", "count"][:, 0].tolist() == [[0, 1, 0], [1, 1, 0]]
    assert collector.episodes.pop() == {
        "count": 2.0,
        "return": (3 + 36) / 2,
        "length": 2.5,
        "won": 0.5,
        "score": (2 + 103) / 2,
    }


# -- exploration ------------------------------------------------------------------------------------------------------


def test_an_outer_exploration_type_overrides_the_collectors(counter_env, policy):
    seen = []

    def watching(obs):
        seen.append(exploration_type())
        return torch.zeros(2, 1)

    collector = SyncDataCollector(counter_env(2), watching, 2, exploration_type=ExplorationType.MODE)
    collector.rollout()
    with set_exploration_type(ExplorationType.MEAN):
        collector.collect()
    next(iter(collector))
    assert seen == [ExplorationType.MODE, ExplorationType.MEAN, ExplorationType.MODE]


# -- saving, post-processing, shutting down ---------------------------------------------------------------------------


@pytest.mark.parametrize("fresh", [True, False], ids=["new collector", "one that has collected"])
def test_a_resumed_collector_continues_bit_for_bit(counter_env, policy, fresh):
    def noisy(obs):
        out = policy(obs)
        return {**out, "action": (out["action"] + 0.1 * torch.randn_like(out["action"])).clamp(-1, 1)}

    torch.manual_seed(5)
    first = SyncDataCollector(counter_env(5), noisy, 35)
    for _ in range(3):
        first.rollout()
    state, rng = first.state_dict(), torch.get_rng_state()
    expected = [first.rollout() for _ in range(3)]
    statistics = first.episodes.pop()

    second = SyncDataCollector(counter_env(5), noisy, 35)
    if not fresh:
        second.rollout()
    second.load_state_dict(state)
    torch.set_rng_state(rng)
    assert all(_equal(batch, second.rollout()) for batch in expected)
    assert second.frames == 6 * 35
    assert second.episodes.pop() == statistics


def test_a_state_of_another_number_of_envs_is_refused(counter_env, policy):
    state = SyncDataCollector(counter_env(3), policy, 9).state_dict()
    with pytest.raises(ValueError, match="num_envs"):
        SyncDataCollector(counter_env(4), policy, 8).load_state_dict(state)


def test_postproc_sees_every_batch(counter_env, policy):
    def shift(batch):
        batch["reward"] = batch["reward"] - 1
        return batch.select("reward")

    collector = SyncDataCollector(counter_env(2), policy, 4, total_frames=4, postproc=shift)
    assert collector.rollout()["reward"].tolist() == [[0, 1], [10, 11]]
    assert set(collector.collect().keys()) == {"reward"}


def test_after_shutdown_calls_raise_and_batches_stay_readable(counter_env, policy):
    with SyncDataCollector(counter_env(2), policy, 4, return_same_td=True) as collector:
        batch = collector.rollout()
    collector.shutdown()
    collector.shutdown()
    for call in (
        collector.rollout,
        collector.collect,
        collector.state_dict,
        collector.check,
        lambda: next(iter(collector)),
    ):
        with pytest.raises(RuntimeError, match="shut down: build a new SyncDataCollector"):
            call()
    assert batch["reward"].tolist() == [[1, 2], [11, 12]]
    assert collector.frames == 4


@pytest.mark.parametrize("return_same_td", [True, False])
def test_batches_are_delivered_on_the_device_asked_for(counter_env, policy, return_same_td):
    collector = SyncDataCollector(counter_env(2), policy, 4, device="meta", return_same_td=return_same_td)
    batch = collector.rollout()
    assert batch.device == torch.device("meta")
    assert batch["next", "observation", "count"].device.type == "meta"
    assert collector.episodes.pop()["count"] == 1


# -- fit for a CUDA graph ---------------------------------------------------------------------------------------------


def test_a_rollout_reads_nothing_back_and_has_fixed_shapes(counter_env, policy):
    # Tensors on the meta device hold no data: reading one back, or a shape that follows from one, raises.
    collector = SyncDataCollector(counter_env(3, "meta"), policy, 12, return_same_td=True)
    assert collector.rollout(check=False)["observation", "count"].shape == (3, 4, 3)
    reading = SyncDataCollector(counter_env(3, "meta"), lambda obs: policy(obs) if obs["count"].sum() > 0 else None, 12)
    with pytest.raises((RuntimeError, NotImplementedError)):
        reading.rollout(check=False)


# -- on a GPU ---------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_rollout_captured_as_a_cuda_graph_equals_the_eager_one(counter_env, policy):
    eager = SyncDataCollector(counter_env(64, "cuda"), policy, 64 * 8)
    graphed = SyncDataCollector(counter_env(64, "cuda"), policy, 64 * 8)
    assert _equal(eager.rollout(), graphed.rollout())
    graph = torch.cuda.CUDAGraph()

    def capture(fill):
        with torch.no_grad(), torch.cuda.graph(graph):  # captured, not run
            fill()
        return graph.replay

    graphed.capture_with(capture)
    for _ in range(4):
        assert _equal(eager.rollout(), graphed.rollout())
    assert eager.episodes.pop() == graphed.episodes.pop()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_collecting_without_check_never_waits_for_the_gpu(counter_env, policy):
    collector = SyncDataCollector(counter_env(64, "cuda"), policy, 64 * 8, return_same_td=True)
    collector.rollout()
    torch.cuda.set_sync_debug_mode("error")
    try:
        collector.rollout(check=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")


CHANGES = [("value", lambda x: x[:1]), ("value", lambda x: x.double()), ("extra", lambda x: None)]


@pytest.mark.parametrize(("key", "change"), CHANGES)
def test_a_policy_output_that_changes_is_named(counter_env, policy, key, change):
    calls = []

    def act(observation):
        calls.append(1)
        out = policy(observation) | {"extra": torch.zeros(4, 2)}
        return out | {key: change(out[key])} if len(calls) == 3 else out

    collector = SyncDataCollector(counter_env(4), act, 16)
    with pytest.raises(ValueError, match=f"{key} was torch.float32 of shape .* at the first step"):
        collector.rollout()
    assert collector.rollout()["value"].shape == (4, 4)  # and it can be used again
