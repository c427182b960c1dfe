"""Your own env from start to ONNX: train, evaluate, export, then fly with onnxruntime alone.

python examples/own_env.py --frames 200000
"""

import argparse
from dataclasses import dataclass

import numpy as np
import torch

import slipstream
from slipstream.cli import main as command
from slipstream.config.compose import load_train
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box


@dataclass
class BrakeConfig:
    num_envs: int = 256
    max_steps: int = 50


class Brake(TensorEnv):
    """A cart stops at the origin; the reward is -|x|."""

    Config = BrakeConfig
    observation_spec = {"cart": Box((2,))}  # position and velocity
    action_spec = Box((1,), -1.0, 1.0)  # acceleration
    state_names = ("cart", "age")

    def __init__(self, num_envs, device="cpu", seed=0, config=None):
        super().__init__(num_envs, device, seed)
        self.config = config or BrakeConfig()
        self.cart = torch.zeros(num_envs, 2, device=device)
        self.age = torch.zeros(num_envs, device=device)

    def _reset(self, mask):
        self.cart.copy_(torch.where(mask[:, None], torch.randn_like(self.cart), self.cart))
        self.age.mul_(~mask)

    def _advance(self, action):
        self.cart[:, 1] += 0.2 * action[:, 0]
        self.cart[:, 0] += 0.2 * self.cart[:, 1]
        self.age += 1

    def _observe(self):
        return {"cart": self.cart.clone()}

    def _outcome(self):
        distance = self.cart[:, 0].abs()
        never = torch.zeros_like(self._pending)
        return Outcome(-distance, never, self.age >= self.config.max_steps, {"distance": distance})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--root", default="runs")
    args = parser.parse_args()
    task = "task=own_env:Brake"  # this file: its folder is on Python's path
    words = [task, f"total_frames={args.frames}", f"root={args.root}", "eval_interval=0", "device=cpu"]
    tuned = ["env.num_envs=64", "algo.learning_rate=3e-3", "algo.minibatches=4", "model.trunk=[32,32]"]
    run = slipstream.train.run(load_train([*words, *tuned])).path
    slipstream.evaluate(f"checkpoint={run}", task, "eval.num_drones=256")
    command(["export", f"checkpoint={run}", task, f"out={run / 'policy.onnx'}"])

    import onnxruntime

    policy = onnxruntime.InferenceSession(str(run / "policy.onnx"), providers=["CPUExecutionProvider"])
    x, v = 1.5, 0.0
    for _ in range(50):
        action = policy.run(["action"], {"cart": np.array([[x, v]], np.float32)})[0][0, 0]
        v += 0.2 * float(action)
        x += 0.2 * v
    print(f"onnxruntime: from 1.50 m the cart is {abs(x):.2f} m from the origin after 50 steps")


if __name__ == "__main__":
    main()
