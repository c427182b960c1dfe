"""GymEnv keeps the TensorEnv contract, whatever Gymnasium env is in it."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402

from slipstream.envs.specs import Box, Discrete  # noqa: E402
from slipstream.tasks.gym.env import GymConfig, GymEnv  # noqa: E402


class Walk(gymnasium.Env):
    """Walks along a line by its action; beyond 3 it terminates. The reward is 10 and the place. Starts at a random
    place below 0.1."""

    observation_space = spaces.Dict({"place": spaces.Box(-100, 100, (1,), np.float64), "kind": spaces.Discrete(3)})

    def __init__(self, actions: str = "box", nervous: bool = False):
        self.action_space = {
            "box": spaces.Box(-1.0, 2.0, (1,), np.float32),
            "free": spaces.Box(-np.inf, np.inf, (1,), np.float32),
            "uneven": spaces.Box(np.array([0.0, -1.0], np.float32), np.array([10.0, 1.0], np.float32)),
            "discrete": spaces.Discrete(3, start=5),
            "multi": spaces.MultiDiscrete([2, 2]),
        }[actions]
        self.nervous = nervous
        self.asked: list = []

    def _seen(self):
        return {"place": np.array([self.place]), "kind": 1}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.1 * self.np_random.random()
        return self._seen(), {}

    def step(self, action):
        assert action in self.action_space
        self.asked.append(np.array(action))
        self.place += float(np.ravel(action)[0]) + (self.np_random.normal() if self.nervous else 0.0)
        info = {
            "place": self.place,
            "over": np.bool_(self.place > 3),
            "note": "walks",
            "length": 7,
            "pose": np.zeros(2),
        }
        if self.place > 3:
            info["is_success"] = True
        return self._seen(), 10 + self.place, self.place > 3, False, info


gymnasium.register("tests/Walk-v0", Walk, max_episode_steps=4)


def walk(num_envs=2, seed=0, vectorization="sync", **kwargs):
    return GymEnv(num_envs, "cpu", seed, GymConfig(id="tests/Walk-v0", vectorization=vectorization, kwargs=kwargs))


def steps(env, *actions):
    return env.step(torch.tensor(actions, dtype=torch.float32)[:, None])


def places(record):
    return record.observation["place"].flatten()


# -- what it looks like ------------------------------------------------------------------------------------------------


def test_spaces_become_specs():
    env = walk()
    assert env.observation_spec == {"place": Box((1,), -100.0, 100.0), "kind": Discrete(3)}
    assert env.action_spec == Box((1,), -1.0, 2.0)
    seen = env.reset()
    assert seen["place"].dtype == torch.float32 and seen["place"].shape == (2, 1)
    assert seen["kind"].tolist() == [1, 1] and seen["kind"].dtype == torch.int64
    pole = GymEnv(3, config=GymConfig(id="CartPole-v1"))
    assert pole.observation_spec["observation"].shape == (4,) and pole.action_spec == Discrete(2)


def test_discrete_actions_are_counted_from_zero_here():
    env = walk(1, actions="discrete")
    env.step(torch.tensor([2]))
    assert env.vector.envs[0].unwrapped.asked == [7] and env.action_spec == Discrete(3)


def test_bounds_that_differ_become_units_of_the_box():
    env = walk(1, actions="uneven")
    assert env.action_spec == Box((2,), -1.0, 1.0)
    env.step(torch.tensor([[-1.0, 0.5]]))
    assert env.vector.envs[0].unwrapped.asked[0].tolist() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GymConfig(id="NoSuchEnv-v0"), "NoSuchEnv.* write env.id=my_module:NoSuchEnv-v0"),
        (GymConfig(id="tests/Walk-v0", kwargs={"actions": "multi"}), "MultiDiscrete"),
        (GymConfig(id="tests/Walk-v0", kwargs={"nosuch": 1}), "nosuch"),
        (GymConfig(id="Blackjack-v1"), "only Box, Discrete"),
    ],
)
def test_what_cannot_be_used_is_named(config, message):
    with pytest.raises(ValueError, match=message):
        GymEnv(1, config=config)
    with pytest.raises(ValueError, match="must be sync or async"):
        GymConfig(vectorization="threads")


def test_a_missing_package_of_an_env_is_named(monkeypatch):
    def make(*args, **kwargs):
        raise ModuleNotFoundError("No module named 'box2d'", name="box2d")

    monkeypatch.setattr(gymnasium, "make", make)
    with pytest.raises(ImportError, match="env.id=LunarLander-v3 needs the package box2d: pip install box2d"):
        GymEnv(1, config=GymConfig(id="LunarLander-v3"))


# -- the contract of a step --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_end_has_its_final_observation_then_a_reset(vectorization):
    env = walk(vectorization=vectorization)
    start = env.reset()["place"].flatten()
    steps(env, 2, 1)
    record = steps(env, 2, 1)
    assert record.terminated.tolist() == [True, False] and record.truncated.tolist() == [False, False]
    assert torch.allclose(places(record), start + torch.tensor([4.0, 2.0])) and record.valid.tolist() == [True, True]
    assert torch.allclose(record.reward, 10 + places(record))
    record = steps(env, 2, 0.5)
    assert record.valid.tolist() == [False, True] and record.reward[0] == 0
    assert not record.terminated.any() and not record.truncated.any()
    assert 0 <= places(record)[0] < 0.1 and places(record)[0] != start[0]
    record = steps(env, 1, 0)  # the time limit of the second
    assert record.truncated.tolist() == [False, True] and not record.terminated.any()
    assert torch.allclose(places(record)[1], start[1] + 2.5)
    env.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_numbers_of_the_first_info_are_logged(vectorization):
    env = walk(vectorization=vectorization)
    record = steps(env, 2.0, 0.0)
    assert set(record.info) == {"place", "over"}
    torch.testing.assert_close(record.info["place"], places(record))
    record = steps(env, 2.0, 0.0)
    assert record.info["over"].tolist() == [1.0, 0.0]
    env.close()


def test_an_info_that_comes_late_is_logged_if_named(same_record):
    config = GymConfig(id="tests/Walk-v0", info=["is_success", "place"])
    env = GymEnv(2, config=config)
    assert steps(env, 2.0, 0.0).info["success"].tolist() == [0.0, 0.0]  # SB3's name becomes ours
    assert steps(env, 2.0, 0.0).info["success"].tolist() == [1.0, 0.0]
    other = GymEnv(2, config=config)
    other.load_state_dict(env.state_dict())
    for _ in range(3):  # the first only resets the environment that has ended
        record = steps(env, 0.0, 0.0)
        assert record.info["success"].tolist() == [0.0, 0.0]
        same_record(record, steps(other, 0.0, 0.0))


def test_a_named_info_that_no_episode_has_is_warned_of():
    env = GymEnv(2, config=GymConfig(id="tests/Walk-v0", info=["sucess", "place"]))
    steps(env, 2.0, 0.0)
    with pytest.warns(UserWarning, match="env.info: no step of a complete episode had sucess in its info"):
        steps(env, 2.0, 0.0)


# -- seeds and state ---------------------------------------------------------------------------------------------------


def test_episodes_follow_from_the_seed_and_differ():
    starts = []
    for seed in (0, 0, 1):
        env = walk(2, seed)
        starts.append(torch.cat([env.reset()["place"].flatten() for _ in range(3)]))
    assert torch.equal(starts[0], starts[1]) and not torch.equal(starts[0], starts[2])
    assert len(set(starts[0].tolist())) == 6


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_restored_env_continues_bit_for_bit(vectorization, same_record):
    env = walk(3, 5, vectorization, nervous=True)
    for _ in range(9):
        steps(env, 1.5, 0.1, -0.5)
    state = env.state_dict()
    assert len({len(taken) for taken in state["actions"]}) > 1  # not all are at the same point of an episode
    twin = walk(3, 5, vectorization, nervous=True)
    steps(twin, 1, 1, 1)
    twin.load_state_dict(state)
    again = twin.state_dict()
    assert torch.equal(again["episode"], state["episode"])
    for _ in range(12):
        same_record(steps(env, 1.0, 0.2, -0.4), steps(twin, 1.0, 0.2, -0.4))
    env.close()
    twin.close()


def test_an_env_that_its_seed_does_not_determine_warns(monkeypatch):
    env = walk(1, nervous=True)
    steps(env, 0.1)
    state = env.state_dict()
    fickle = iter(range(1000))
    monkeypatch.setattr(Walk, "_seen", lambda self: {"place": np.array([self.place + next(fickle)]), "kind": 1})
    with pytest.warns(UserWarning, match="is not deterministic given its seed"):
        walk(1, nervous=True).load_state_dict(state)


def test_an_empty_space_is_refused_by_name():
    class Empty(Walk):
        observation_space = spaces.Dict({"nothing": spaces.Box(-1, 1, (0,), np.float32)})

    gymnasium.register("Empty-v0", Empty)
    with pytest.raises(ValueError, match="observation 'nothing'.*none of them empty"):
        GymEnv(2, config=GymConfig(id="Empty-v0"))


def test_a_killed_process_of_an_async_env_is_named():
    env = GymEnv(2, config=GymConfig(id="tests/Walk-v0", vectorization="async"))
    os.kill(env.vector.processes[0].pid, signal.SIGKILL)
    with pytest.raises(
        ChildProcessError, match="tests/Walk-v0 stepped, perhaps killed for memory: use fewer env.num_envs"
    ):
        env.step(torch.zeros(2, 1))
    env.close()
