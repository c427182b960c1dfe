"""Time of a step through each adapter, as a ratio to the bare env; the contenders alternate in one process.

    python benchmarks/adapters.py [--envs 1 64 1024] [--steps 200] [--rounds 7]

The bare env steps a tensor of random actions and nothing else. Every adapter gets the same actions as the array or
TensorDict that it takes. The last column is the number of frames per 1,000 that ended an episode.
"""

import argparse
import os
import statistics
import time
import warnings

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line sets it, before torch is imported

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from slipstream.config.registry import names
from slipstream.envs.adapters import GymnasiumEnv, GymnasiumVectorEnv, PettingZooEnv, SB3VecEnv, TorchRLEnv
from slipstream.envs.adapters.gymnasium_env import build
from slipstream.envs.adapters.spaces import to_action

TASKS = names("gymnasium")
SETTINGS = {"slipstream/Navigation-v0": {"decision_interval": 4}, "slipstream/AirCombat-v0": {"time_scale": 4.0}}
PEER_ENVS = 16  # for Gymnasium's and SB3's own loops over single environments


class Bare:
    """The env itself."""

    def __init__(self, env, actions):
        env.reset()
        self.env, self.actions, self.ends = env, [to_action(env, a) for a in actions], 0.0

    def step(self, k):
        record = self.env.step(self.actions[k])
        self.ends += float((record.terminated | record.truncated).sum())


class Arrays:
    """A Gymnasium vector env or an SB3 VecEnv."""

    def __init__(self, env, actions):
        env.reset()
        self.env, self.actions = env, actions

    def step(self, k):
        self.env.step(self.actions[k])


class Single:
    """Gymnasium's loop over one environment."""

    def __init__(self, env, actions):
        env.reset()
        self.env, self.actions = env, actions

    def step(self, k):
        _, _, terminated, truncated, _ = self.env.step(self.actions[k][0])
        if terminated or truncated:
            self.env.reset()


class Zoo:
    """PettingZoo's loop over the agents of one world."""

    def __init__(self, env, actions):
        env.reset()
        self.env, self.actions = env, actions

    def step(self, k):
        if not self.env.agents:
            self.env.reset()
        self.env.step({agent: self.actions[k][self.env.possible_agents.index(agent)] for agent in self.env.agents})


class TensorDicts:
    """TorchRL's step with its own resets."""

    def __init__(self, env, actions):
        self.env, self.actions = env, [torch.from_numpy(a) for a in actions]
        self.td = env.reset()

    def step(self, k):
        self.td["action"] = self.actions[k]
        _, self.td = self.env.step_and_maybe_reset(self.td)


def contenders(task, n, actions):
    """Everything that is timed for one task and number of environments."""
    env = lambda m=n: build(TASKS[task], m, 0, "cpu", SETTINGS[task])  # noqa: E731
    yield "bare env", Bare(env(), actions)
    if n == 1:
        yield "GymnasiumEnv", Single(GymnasiumEnv(env()), actions)
    yield "GymnasiumVectorEnv", Arrays(GymnasiumVectorEnv(env()), actions)
    yield "GymnasiumVectorEnv, copy=False", Arrays(GymnasiumVectorEnv(env(), copy=False), actions)
    yield "GymnasiumVectorEnv, SAME_STEP", Arrays(GymnasiumVectorEnv(env(), AutoresetMode.SAME_STEP), actions)
    yield "SB3VecEnv", Arrays(SB3VecEnv(env()), actions)
    yield "TorchRLEnv", TensorDicts(TorchRLEnv(env()), actions)
    if n <= PEER_ENVS:
        yield "PettingZooEnv (agents of one world)", Zoo(PettingZooEnv(env()), actions)
    if n == PEER_ENVS:
        yield (
            "Gymnasium's SyncVectorEnv of GymnasiumEnv",
            Arrays(SyncVectorEnv([lambda: GymnasiumEnv(env(1))] * n), actions),
        )
        yield (
            "SB3's DummyVecEnv of GymnasiumEnv",
            Arrays(DummyVecEnv([lambda: GymnasiumEnv(env(1)) for _ in range(n)]), actions),
        )


def measure(task, n, steps, rounds):
    """Seconds a step, [rounds] for each contender, and the share of frames that ended an episode."""
    space = GymnasiumVectorEnv(build(TASKS[task], n, 0, "cpu", SETTINGS[task])).action_space
    space.seed(0)
    actions = [np.asarray(space.sample()) for _ in range(steps)]
    racers = dict(contenders(task, n, actions))
    times = {name: [] for name in racers}
    for lap in range(rounds + 1):
        for name, racer in racers.items():
            begin = time.perf_counter()
            for k in range(steps):
                racer.step(k)
            if lap:  # the first warms up
                times[name].append((time.perf_counter() - begin) / steps)
    return times, racers["bare env"].ends / (n * steps * (rounds + 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 16, 64, 1024])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(f"{torch.get_num_threads()} threads, {args.rounds} rounds of {args.steps} steps\n")
    columns = (
        "task",
        "envs",
        "through",
        "µs per step, median (range)",
        "ratio to the bare env, median",
        "ends in 1,000 frames",
    )
    print("|".join(("", *columns, "")) + "\n" + "|---" * len(columns) + "|")
    for task in TASKS:
        for n in args.envs:
            times, ends = measure(task, n, args.steps, args.rounds)
            for name, laps in times.items():
                ratio = statistics.median(a / b for a, b in zip(laps, times["bare env"], strict=True))
                micro = [1e6 * lap for lap in laps]
                spread = f"{statistics.median(micro):.0f} ({min(micro):.0f}–{max(micro):.0f})"
                print(
                    f"| {task.split('/')[1]} | {n:,} | {name} | {spread} | {ratio:.2f} | {1000 * ends:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
