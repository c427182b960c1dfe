"""The TensorEnv contract, on an environment small enough to know by heart."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from slipstream.envs.base import BadActionError, Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation


class WalkEnv(TensorEnv):
    """Each env walks along a line by its action; beyond 3 the episode terminates, after 4 steps it is truncated.

    The reward is 10 and the place.
    """

    observation_spec = {"place": Box((1,)), "episode": Box((1,))}
    action_spec = Box((1,), -1.0, 2.0)
    state_names = ("place", "steps", "episode")

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.place = torch.zeros(num_envs)
        self.steps = torch.zeros(num_envs)
        self.episode = torch.zeros(num_envs)
        self.reset()

    def _reset(self, mask: Tensor) -> None:
        self.place.masked_fill_(mask, 0.0)
        self.steps.masked_fill_(mask, 0.0)
        self.episode += mask

    def _advance(self, action: Tensor) -> None:
        self.place += action[:, 0] if action.dim() > 1 else action
        self.steps += 1

    def _observe(self) -> Observation:
        return {"place": self.place[:, None].clone(), "episode": self.episode[:, None].clone()}

    def _outcome(self) -> Outcome:
        return Outcome(10 + self.place, self.place > 3, self.steps >= 4, {"steps": self.steps.clone()})


class DiscreteWalkEnv(WalkEnv):
    action_spec = Discrete(3)


class FreeWalkEnv(WalkEnv):
    action_spec = Box((1,))


def _step(env: TensorEnv, *actions: float):
    return env.step(torch.tensor(actions, dtype=torch.float32)[:, None])


# -- auto-reset ------------------------------------------------------------------------------------------------------


def test_the_step_after_an_end_only_resets():
    env = WalkEnv(2)
    _step(env, 2, 1)
    _step(env, 2, 1)
    record = _step(env, 2, 1)
    assert record.valid.tolist() == [False, True] and record.reward.tolist() == [0, 13]
    assert record.observation["place"].flatten().tolist() == [0, 3]
    assert record.observation["episode"].flatten().tolist() == [2, 1]
    assert not record.terminated[0] and not record.truncated[0]
    record = _step(env, 1, 0)
    assert record.valid.tolist() == [True, True] and record.observation["place"].flatten().tolist() == [1, 3]


def test_a_termination_wins_over_a_timeout_at_the_same_step():
    env = WalkEnv(2)
    for _ in range(3):
        _step(env, 1, 0.5)
    record = _step(env, 1, 0.5)
    assert record.terminated.tolist() == [True, False] and record.truncated.tolist() == [False, True]


def test_an_episode_does_not_end_on_its_reset_frame():
    class AlwaysDone(WalkEnv):
        def _outcome(self) -> Outcome:
            done = torch.ones(self.num_envs, dtype=torch.bool)
            return Outcome(self.place.clone(), done, done, {})

    env = AlwaysDone(1)
    ends = [bool(_step(env, 1).terminated) for _ in range(4)]
    assert ends == [True, False, True, False]


def test_reset_with_a_mask_touches_only_the_masked():
    env = WalkEnv(3)
    _step(env, 2, 2, 1)
    _step(env, 2, 2, 1)  # 0 and 1 have ended
    observation = env.reset(torch.tensor([True, False, False]))
    assert observation["place"].flatten().tolist() == [0, 4, 2]
    record = _step(env, 1, 1, 1)
    assert record.valid.tolist() == [True, False, True]
    assert record.observation["place"].flatten().tolist() == [1, 0, 3]


# -- wrong inputs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mask", [torch.ones(3, dtype=torch.bool), torch.ones(2), torch.ones(2, 1, dtype=torch.bool), torch.tensor(True)]
)
def test_a_wrong_mask_is_refused_and_changes_nothing(mask):
    env = WalkEnv(2)
    with pytest.raises(ValueError, match=r"'env_mask' must be a tensor: torch.bool \[2\]"):
        env.reset(mask)
    assert env.episode.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (WalkEnv, torch.zeros(2)),
        (WalkEnv, torch.zeros(3, 1)),
        (WalkEnv, torch.zeros(2, 1, dtype=torch.int64)),
        (DiscreteWalkEnv, torch.zeros(2)),
        (DiscreteWalkEnv, torch.zeros(2, 1, dtype=torch.int64)),
        (DiscreteWalkEnv, torch.zeros(2, dtype=torch.bool)),
    ],
)
def test_a_wrong_action_is_refused_and_changes_nothing(kind, action):
    env = kind(2)
    with pytest.raises(ValueError, match="action"):
        env.step(action)
    assert env.steps.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_a_discrete_action_of_any_width_is_an_index(dtype):
    class Indexing(DiscreteWalkEnv):
        def _advance(self, action: Tensor) -> None:
            self.place += torch.tensor([0.0, 10.0, 20.0])[action]

    env = Indexing(3)
    env.step(torch.tensor([2, 0, 1], dtype=dtype))
    assert env.place.tolist() == [20, 0, 10]


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("place", lambda x: x[:1], r"'place' must be .*torch.float32 \[3, 1\] on cpu.* it is torch.float32 \[1, 1\]"),
        ("place", lambda x: x.to("meta"), "'place' must be .* on meta"),
        ("place", lambda x: None, "'place' must be .* as its spec says; it is missing"),
        ("reward", lambda x: x.mean(), r"'reward' must be .*\[3\] on cpu; it is torch.float32 \[\]"),
        ("reward", lambda x: x.double(), "'reward' must be .*torch.float32"),
        ("reward", lambda x: 1.0, "'reward' must be a tensor.* it is a float"),
        ("terminated", lambda x: x.to(torch.uint8), "'terminated' must be .*torch.bool"),
        ("truncated", lambda x: x.any(), "'truncated' must be"),
    ],
)
def test_a_part_that_changes_after_the_first_step_is_named(part, change, message):
    class Changing(WalkEnv):
        def _observe(self):
            seen = super()._observe()
            return seen | {part: change(seen[part])} if self.steps[0] == 2 and part in seen else seen

        def _outcome(self):
            outcome = super()._outcome()
            if self.steps[0] == 2 and hasattr(outcome, part):
                setattr(outcome, part, change(getattr(outcome, part)))
            return outcome

    env = Changing(3)
    _step(env, 0, 0, 0)
    with pytest.raises(ValueError, match=message):
        _step(env, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "spec"), [("place", Box((0,))), ("place", Box((2, 0, 3))), ("place", Discrete(0)), ("action", Discrete(0))]
)
def test_an_empty_spec_is_refused_by_name(name, spec):
    class Empty(WalkEnv):
        observation_spec = WalkEnv.observation_spec | ({"place": spec} if name == "place" else {})
        action_spec = spec if name == "action" else WalkEnv.action_spec

    with pytest.raises(ValueError, match=f"{name}'? of Empty is empty"):
        Empty(2)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 2.1, -1.1])
def test_bad_actions_raise_at_check_and_name_their_environments(bad):
    env, sound = WalkEnv(4), WalkEnv(4)
    record = _step(env, 1, bad, 0.5, bad)
    expected = _step(sound, 1, 0, 0.5, 0)
    for i in (0, 2):
        assert record.observation["place"][i] == expected.observation["place"][i]
    assert torch.isfinite(record.observation["place"]).all()
    assert (env.place >= -1).all() and (env.place <= 2).all()  # what they flew instead lies in the action space
    with pytest.raises(BadActionError, match=r"2 of 4 environments \(1, 3\).*a lower learning rate"):
        env.check()
    env.check()  # raised once
    assert _step(env, 1, 1, 1, 1).valid.all()
    env.check()


def test_rounding_at_the_bounds_is_no_offence():
    env = WalkEnv(2)
    _step(env, 2.0001, -1.0001)
    env.check()
    assert env.place.tolist() == [2, -1]


@pytest.mark.parametrize("bad", [-1, 3])
def test_bad_discrete_actions_raise_at_check(bad):
    env = DiscreteWalkEnv(3)
    env.step(torch.tensor([0, bad, 2]))
    with pytest.raises(BadActionError, match=r"1 of 3 environments \(1\)"):
        env.check()
    env.step(torch.tensor([0, 2, 2]))
    env.check()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_infinite_actions_of_an_unbounded_env_become_zero(bad):
    env = FreeWalkEnv(2)
    _step(env, bad, 1e6)
    assert env.place.tolist() == [0, 1e6]
    with pytest.raises(BadActionError, match=r"\(0\)"):
        env.check()


# -- state -----------------------------------------------------------------------------------------------------------


def test_a_restored_env_continues_bit_for_bit():
    env, twin = WalkEnv(3), WalkEnv(3)
    _step(env, 2, 1, math.nan)
    _step(env, 2, 1, 0)  # a pending reset, and a flag
    state = env.state_dict()
    expected = [_step(env, 1, 0.3, 0.7) for _ in range(4)]
    twin.load_state_dict(state)
    actual = [_step(twin, 1, 0.3, 0.7) for _ in range(4)]
    for a, b in zip(actual, expected, strict=True):
        for name in ("reward", "terminated", "truncated", "valid"):
            assert torch.equal(getattr(a, name), getattr(b, name))
        assert torch.equal(a.observation["place"], b.observation["place"])
    with pytest.raises(BadActionError, match=r"\(2\)"):
        twin.check()


@pytest.mark.parametrize("count", [0, -1, 10**10, 2.5])
def test_a_number_of_envs_that_cannot_be_is_refused(count):
    with pytest.raises(ValueError, match="num_envs must"):
        WalkEnv(count)


def test_the_state_of_another_number_of_envs_is_refused():
    with pytest.raises(ValueError, match="build it with the num_envs and world of the saved one"):
        WalkEnv(3).load_state_dict(WalkEnv(2).state_dict())
