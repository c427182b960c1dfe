"""The Stable-Baselines3 adapter: new starts in the step that ends an episode, and training."""

import warnings

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
from adapter_tasks import TASKS  # noqa: E402
from counting import Counting  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize  # noqa: E402

from slipstream.envs.adapters import SB3VecEnv  # noqa: E402
from slipstream.envs.adapters.spaces import to_action  # noqa: E402
from slipstream.envs.base import BadActionError  # noqa: E402

ZERO = np.zeros((2, 2), np.float32)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_sb3s_own_check_passes(task):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # advice on shapes and bounds; faults raise
        check_env(gymnasium.make(task.id, **task.settings).unwrapped)


def test_an_end_gives_the_new_start_and_the_last_observation():
    env = SB3VecEnv(Counting(2))
    first = env.reset()
    for _ in range(2):
        _, _, done, infos = env.step(ZERO)
        assert not done.any() and infos == [{}, {}]
    observation, reward, done, infos = env.step(ZERO)
    assert (observation["count"][:, 0].tolist(), reward.tolist(), done.tolist()) == ([20, 13], [3, 3], [True, False])
    assert infos[0]["terminal_observation"]["count"].tolist() == [13]
    assert (infos[0]["TimeLimit.truncated"], infos[0]["success"], infos[0]["is_success"], infos[1]) == (False, 1, 1, {})
    observation, reward, done, infos = env.step(ZERO)
    assert (observation["count"][:, 0].tolist(), reward.tolist(), done.tolist()) == ([21, 20], [1, 4], [False, True])
    assert infos[1]["TimeLimit.truncated"] and infos[1]["terminal_observation"]["parity"] == 0
    assert first["count"][:, 0].tolist() == [10, 10]  # SB3 keeps what it was given while it steps


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_reset_at_once_leaves_the_others_observation_alone(task):
    """Stepped in turns with an env that nobody resets at once: whoever has not ended sees the same."""
    ours, plain = SB3VecEnv(task.make(8, max_steps=40)), task.make(8, max_steps=40)
    ours.reset(), plain.reset()
    ended = np.zeros(8, bool)
    for k in range(60):
        action = np.stack([ours.action_space.sample() for _ in range(8)])
        record = plain.step(to_action(plain, action))
        observation, reward, done, infos = ours.step(action)
        for name, tensor in record.observation.items():
            np.testing.assert_array_equal(
                observation[name][~ended & ~done], tensor.numpy()[~ended & ~done], err_msg=f"{name} at {k}"
            )
            for i in np.flatnonzero(done & ~ended):
                np.testing.assert_array_equal(infos[i]["terminal_observation"][name], tensor[i].numpy())
        ended |= done
    assert ended.any()


def test_the_seed_given_to_sb3_makes_the_run():
    env = SB3VecEnv(TASKS["navigation"].make(4))

    def start(seed):
        env.seed(seed)
        return env.reset()["state"]

    first, again, other = start(3), start(3), start(4)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert not np.array_equal(first, env.reset()["state"])  # a seed holds for one reset


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_sb3s_ppo_trains_on_it_as_it_is(task):
    env = VecNormalize(VecMonitor(SB3VecEnv(task.make(8, max_steps=40))), norm_obs=False)
    model = PPO("MultiInputPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=1, device="cpu")
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(512)
    assert len(model.ep_info_buffer) > 0
    assert all(np.isfinite(p.detach().numpy()).all() for p in model.policy.parameters())
    assert any((p != q).any() for p, q in zip(model.policy.parameters(), before, strict=True))
    mean, _ = evaluate_policy(model, env, n_eval_episodes=2, warn=False)
    assert np.isfinite(mean)


def test_bad_actions_are_refused_before_anything_moves():
    env = SB3VecEnv(Counting(2))
    env.reset()
    with pytest.raises(BadActionError, match="environment 1"):
        env.step(np.array([[0, 0], [np.nan, 0]]))
    with pytest.raises(ValueError, match=r"shape \[2, 2\]"):
        env.step(np.zeros((2, 3)))
    assert env.env.age.tolist() == [0, 0]


def test_sb3_may_look_inside():
    env = SB3VecEnv(Counting(2))
    assert env.get_attr("seed", [1]) == [0] and env.has_attr("num_envs") and not env.has_attr("wings")
    env.set_attr("note", "x")
    assert env.env.note == "x"
    with pytest.raises(ValueError, match="leave indices out"):
        env.set_attr("note", "y", indices=0)
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False, False]
    assert env.env_method("check") == [None, None]
