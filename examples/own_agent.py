"""Your own agent and reward in air combat: fly them in midrangeRL's loop, then train against them.

python examples/own_agent.py --frames 100000
"""

import argparse

import torch

import slipstream
from slipstream import AirCombatEnv, BaseAgent, BaseReward, create_agent
from slipstream.config.compose import load_train
from slipstream.tasks.aircombat.env import AirCombatConfig


class Weaver(BaseAgent):
    """Weave towards the enemy and fire from 15 km. The memory is tensors [N], changed in place."""

    def __init__(self, num_envs=1, device="cpu"):
        super().__init__(num_envs, device)
        self.phase = torch.zeros(num_envs, device=device)

    def act(self, observation):
        self.phase += 0.1
        bearing = torch.atan2(observation["enemy_bearing_sin"], observation["enemy_bearing_cos"])
        near = observation["enemy_range"] * 50 < 15  # /50 km
        return {"rudder": (bearing + self.phase.sin()).clamp(-1, 1), "throttle": torch.ones_like(bearing), "fire": near}

    def reset(self, env_mask=None):
        self.phase.zero_() if env_mask is None else self.phase.masked_fill_(env_mask, 0.0)

    def state_tensors(self):
        return {"phase": self.phase}


class WinFast(BaseReward):
    """Reward 1 for a win, -1 for a loss, and -0.01 per second."""

    def compute(self, obs_before, obs_after, action, done, info):
        return info["success"] - info["lost"] - 0.01 * info["step_s"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--root", default="runs")
    args = parser.parse_args()

    settings = AirCombatConfig(num_envs=64, time_scale=4.0)
    env = AirCombatEnv(config=settings, opponent=create_agent("pursuit", 64), reward=WinFast())
    weaver, view = Weaver(64), env.reset()
    won = lost = 0
    for _ in range(600):
        record = env.step(weaver.act(view))
        weaver.reset(record.terminated)
        view = record.observation
        won += int(record.info["success"][record.terminated].sum())
        lost += int(record.info["lost"][record.terminated].sum())
    print(f"Weaver against pursuit: {won} won, {lost} lost")

    words = ["task=aircombat", "opponent=own_agent:Weaver", "reward=own_agent:WinFast", f"total_frames={args.frames}"]
    sizes = ["env.num_envs=64", "algo.rollout_steps=32", "eval_interval=0", "device=cpu", f"root={args.root}"]
    run = slipstream.train.run(load_train([*words, *sizes])).path
    print(f"trained against Weaver: slipstream eval checkpoint={run} env.opponent=own_agent:Weaver")


if __name__ == "__main__":
    main()
