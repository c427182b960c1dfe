"""The Gymnasium adapters: one environment, and many."""

import warnings

import numpy as np
import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")
from adapter_tasks import TASKS  # noqa: E402
from counting import Counting  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.wrappers.vector import ClipReward, DictInfoToList, FlattenObservation, RecordEpisodeStatistics  # noqa: E402

from slipstream.envs.adapters import GymnasiumEnv, GymnasiumVectorEnv  # noqa: E402
from slipstream.envs.base import BadActionError  # noqa: E402

ZERO = np.zeros((3, 2), np.float32)


def fly(env, seed, steps=40):
    """Everything that `steps` random actions after a seeded reset give."""
    env.action_space.seed(5)
    trace = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        trace += [observation, {"reward": np.array(reward), "ends": np.array([terminated, truncated])}]
        if isinstance(env, gymnasium.Env) and (terminated or truncated):
            trace.append(env.reset()[0])
    return trace


def same(a, b):
    return all(np.array_equal(x[name], y[name]) for x, y in zip(a, b, strict=True) for name in x)


# -- one environment ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_gymnasiums_own_check_passes(task):
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric and normalized).*")  # of the tasks' own bounds
        check_env(gymnasium.make(task.id, **task.settings).unwrapped)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_seed_gives_the_same_flight_whatever_was_flown_before(task):
    env = gymnasium.make(task.id, **task.settings)
    first, other, again = fly(env, 7), fly(env, 8), fly(env, 7)
    assert same(first, again)
    assert not same(first[:1], other[:1])
    assert same(first, fly(gymnasium.make(task.id, **task.settings), 7))


def test_one_environment_gives_what_the_tensors_hold():
    env = GymnasiumEnv(Counting(1, seed=2))
    observation, info = env.reset()
    assert (observation["count"].tolist(), observation["parity"].item(), info) == ([210], 0, {})
    observation, reward, terminated, truncated, info = env.step(np.array([0.5, -0.5], np.float32))
    assert (observation["count"].tolist(), reward, terminated, truncated, info) == (
        [211],
        1.0,
        False,
        False,
        {"success": 0.0},
    )
    assert env.env.seen_action.tolist() == [[0.5, -0.5]]
    env.step(ZERO[0])
    *_, terminated, truncated, info = env.step(ZERO[0])
    assert (terminated, truncated, info) == (True, False, {"success": 1.0})
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        env.step(ZERO[0])
    assert env.reset()[0]["count"].tolist() == [220]


def test_a_wrong_setting_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="num_obstacle'.*did you mean 'num_obstacles'"):
        gymnasium.make("slipstream/Navigation-v0", num_obstacle=3)
    with pytest.raises(ValueError, match="dyn.num_obstacle'.*did you mean 'dyn.num_obstacles'"):
        gymnasium.make("slipstream/Navigation-v0", dyn={"num_obstacle": 3})


# -- many environments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_make_vec_flies_all_at_once_within_the_spaces(task):
    env = gymnasium.make_vec(task.id, num_envs=5, **task.settings)
    assert isinstance(env.unwrapped, GymnasiumVectorEnv)
    trace = fly(env, 4, 100)
    assert all(env.observation_space.contains(part) for part in trace if "reward" not in part)
    assert same(trace, fly(env, 4, 100))


def test_the_step_after_an_end_resets_and_counts_for_nothing():
    env = GymnasiumVectorEnv(Counting(2))
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env.reset()
    for _ in range(2):
        env.step(ZERO[:2])
    observation, reward, terminated, truncated, info = env.step(ZERO[:2])
    assert observation["count"][:, 0].tolist() == [13, 13]
    assert (terminated.tolist(), truncated.tolist(), info["success"].tolist()) == (
        [True, False],
        [False, False],
        [1, 0],
    )
    observation, reward, terminated, truncated, info = env.step(ZERO[:2])
    assert observation["count"][:, 0].tolist() == [20, 14]
    assert (reward.tolist(), terminated.tolist(), truncated.tolist()) == ([0, 4], [False, False], [False, True])
    assert info["_success"].tolist() == [False, True]


def test_the_same_step_mode_returns_the_last_observation():
    env = GymnasiumVectorEnv(Counting(2), AutoresetMode.SAME_STEP)
    env.reset()
    for _ in range(2):
        env.step(ZERO[:2])
    observation, reward, terminated, truncated, info = env.step(ZERO[:2])
    assert observation["count"][:, 0].tolist() == [20, 13]
    assert (reward.tolist(), terminated.tolist()) == ([3, 3], [True, False])
    assert info["final_obs"][0]["count"].tolist() == [13] and info["final_obs"][1] is None
    assert info["_final_obs"].tolist() == info["final_info"]["_success"].tolist() == [True, False]
    assert info["final_info"]["success"].tolist() == [1, 0]
    assert env.step(ZERO[:2])[0]["count"][:, 0].tolist() == [21, 20]


def test_gymnasiums_vector_wrappers_work_on_it():
    env = RecordEpisodeStatistics(ClipReward(FlattenObservation(GymnasiumVectorEnv(Counting(2))), 0, 2))
    assert env.reset()[0].shape == (2, 3)
    ends = [env.step(ZERO[:2])[-1] for _ in range(3)]
    assert ends[-1]["episode"]["r"][0] == 1 + 2 + 2 and ends[-1]["episode"]["l"][0] == 3
    infos = DictInfoToList(GymnasiumVectorEnv(Counting(2)))
    infos.reset()
    assert infos.step(ZERO[:2])[-1] == [{"success": 0.0}, {"success": 0.0}]


def test_views_are_the_envs_own_memory_and_copies_are_not():
    env = Counting(2)
    views, copies = GymnasiumVectorEnv(env, copy=False), GymnasiumVectorEnv(env)
    assert views.reset()[0]["count"].ctypes.data == env.count.data_ptr()
    kept = copies.reset()[0]["count"]
    env.count.fill_(-1)
    assert kept[:, 0].tolist() == [20, 20]


def test_a_mask_resets_only_some():
    env = GymnasiumVectorEnv(Counting(3))
    env.reset()
    env.step(ZERO)
    observation, _ = env.reset(options={"reset_mask": np.array([False, True, False])})
    assert observation["count"][:, 0].tolist() == [11, 20, 11]
    with pytest.raises(ValueError, match="'env_mask' must be"):
        env.reset(options={"reset_mask": np.array([True])})


def test_a_list_of_seeds_and_a_mode_without_resets_are_refused():
    with pytest.raises(ValueError, match="one seed"):
        GymnasiumVectorEnv(Counting(2)).reset(seed=[1, 2])
    with pytest.raises(ValueError, match="SAME_STEP"):
        GymnasiumVectorEnv(Counting(2), AutoresetMode.DISABLED)


# -- actions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (
            np.array([[0, 0], [np.nan, 0], [0, 0]], np.float32),
            BadActionError,
            "environment 1 is .nan, 0.0.; each number must be finite",
        ),
        (np.array([[0, 0], [0, 0], [0, np.inf]]), BadActionError, "environment 2"),
        (np.full((3, 2), 1.5), BadActionError, r"in \[-1, 1\].*ClipAction"),
        (np.zeros((2, 2)), ValueError, r"shape \[3, 2\], not \[2, 2\]"),
        (np.zeros(3), ValueError, r"shape \[3, 2\], not \[3\]"),
        (np.full((3, 2), "left"), ValueError, "must have dtype float32"),
    ],
)
def test_what_is_no_action_is_refused_and_nothing_has_moved(action, error, message):
    env = GymnasiumVectorEnv(Counting(3))
    env.reset()
    with pytest.raises(error, match=message):
        env.step(action)
    assert env.env.age.tolist() == [0, 0, 0]
    env.step(np.full((3, 2), 1.0005))  # rounding is no offence
    env.env.check()


def test_discrete_actions_are_checked_too():
    env = gymnasium.make("slipstream/Navigation-v0", actions="discrete", **TASKS["navigation"].settings)
    assert env.action_space == gymnasium.spaces.Discrete(27)
    env.reset(seed=0)
    env.step(26)
    with pytest.raises(BadActionError, match=r"in \[0, 27\)"):
        env.unwrapped.step(27)
    with pytest.raises(ValueError, match="int64"):
        env.unwrapped.step(1.0)


def test_fire_goes_by_its_sign():
    env = gymnasium.make_vec("slipstream/AirCombat-v0", num_envs=3, start="head_on")
    assert env.single_action_space == gymnasium.spaces.Box(np.array([-1, 0, -1], np.float32), np.ones(3, np.float32))
    env.reset(seed=0)
    *_, info = env.step(np.array([[0, 1, -1], [0, 1, 0], [0, 1, 0.01]], np.float32))
    assert info["shots"].tolist() == [0, 0, 1]
    with pytest.raises(BadActionError, match=r"environment 1 is .*in \[-1, 1\] x \[0, 1\] x \[-1, 1\]"):
        env.step(np.array([[0, 1, 0], [0, -0.5, 0], [0, 1, 0]], np.float32))


def test_a_new_seed_keeps_the_opponent_it_was_given():
    from slipstream.tasks.aircombat.agents import PlaceholderAgent
    from slipstream.tasks.aircombat.env import AirCombatEnv

    class Mine(PlaceholderAgent):
        pass

    env = GymnasiumVectorEnv(AirCombatEnv(2, opponent=Mine(2)))
    env.reset(seed=3)
    assert isinstance(env.env.opponent, Mine) and env.env.seed == 3


def test_an_env_that_forgets_its_settings_cannot_be_given_a_seed():
    class Forgetful(Counting):
        def __init__(self, num_envs, device="cpu", seed=0, config=None, wind=0.0):
            super().__init__(num_envs, device, seed, config)

    env = GymnasiumEnv(Forgetful(1))
    env.reset()
    with pytest.raises(TypeError, match="store its argument wind as self.wind"):
        env.reset(seed=1)


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_an_env_on_a_gpu_gives_arrays_of_its_own(task):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    env = gymnasium.make_vec(task.id, num_envs=5, device="cuda", copy=False, **task.settings)
    first, _ = env.reset(seed=0)
    kept = {name: array.copy() for name, array in first.items()}
    for _ in range(5):
        observation, *_ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
    assert all(np.array_equal(first[name], kept[name]) for name in kept)
