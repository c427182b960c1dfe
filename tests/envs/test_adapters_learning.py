"""Stable-Baselines3's PPO, as it comes, learns navigation through the adapter."""

import numpy as np
import pytest
from adapter_tasks import TASKS

pytest.importorskip("stable_baselines3")
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize  # noqa: E402
from torch.nn import ReLU  # noqa: E402

from slipstream.envs.adapters import SB3VecEnv  # noqa: E402


class Record(BaseCallback):
    """The successes of all episodes, in the order in which they ended."""

    def __init__(self):
        super().__init__()
        self.success = []

    def _on_step(self):
        self.success += [info["is_success"] for info in self.locals["infos"] if "is_success" in info]
        return True


WORLD = {
    "num_obstacles": 8,
    "map_half_m": 4.0,
    "dyn": {"num_obstacles": 0},
    "decision_interval": 8,
    "max_episode_steps": 960,
    "goal_ends_episode": True,
}


@pytest.mark.soak
def test_sb3s_ppo_learns_to_reach_the_goal():
    env = VecNormalize(VecMonitor(SB3VecEnv(TASKS["navigation"].make(64, **WORLD))), gamma=0.98)
    settings = {
        "n_steps": 64,
        "batch_size": 512,
        "n_epochs": 6,
        "learning_rate": 1e-3,
        "gamma": 0.98,
        "device": "cpu",
        "seed": 1,
    }
    model = PPO("MultiInputPolicy", env, policy_kwargs={"log_std_init": -0.5, "activation_fn": ReLU}, **settings)
    record = Record()
    model.learn(250_000, callback=record)
    fifth = len(record.success) // 5
    first, last = np.mean(record.success[:fifth]), np.mean(record.success[-fifth:])
    print(f"{len(record.success)} episodes, success {first:.2f} in the first fifth, {last:.2f} in the last")
    assert last > first + 0.2
