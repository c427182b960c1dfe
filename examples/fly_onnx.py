"""Fly one episode with an exported policy: NumPy and onnxruntime decide, PyTorch only simulates the world.

slipstream export --to onnx out=policy.onnx        # the shipped policy; checkpoint=runs/NAME for yours
python examples/fly_onnx.py policy.onnx            # optional: a seed, and the opponent of a duel: 1 pursuit
"""

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import onnxruntime

import slipstream.envs.adapters  # noqa: F401  (registers our tasks with Gymnasium)


class OnnxPolicy:
    """An exported policy: one observation in, one action out."""

    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.about = self.session.get_modelmeta().custom_metadata_map  # task, env, observations, action
        self.inputs = [part.name for part in self.session.get_inputs()]

    def __call__(self, observation):
        batch = {name: np.asarray(observation[name])[None] for name in self.inputs}  # any batch size will do
        return self.session.run(["action"], batch)[0][0]


def make_env(about, opponent="crank"):
    """Return the env of the policy's training, from the file's metadata; in a duel against `opponent`."""
    settings = json.loads(about["env"])
    if "opponent" in settings:
        settings["opponent"] = opponent
    return gymnasium.make(about["gymnasium"], config=settings)


def fly(env, policy, seed=0):
    """Fly one episode. Return its return, its length and its last info."""
    observation, _ = env.reset(seed=seed)
    total, steps, over = 0.0, 0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        total, steps, over = total + reward, steps + 1, terminated or truncated
    return total, steps, info


if __name__ == "__main__":
    path, seed, opponent = [*sys.argv[1:4], *["policy.onnx", 0, "crank"][len(sys.argv) - 1 :]]
    if not Path(path).is_file():
        sys.exit(f"there is no file {path}: write it with slipstream export --to onnx out={path}")
    policy = OnnxPolicy(path)
    env = make_env(policy.about, opponent)
    total, steps, info = fly(env, policy, int(seed))
    world = env.unwrapped.env.config
    duel = f" against {world.opponent} (reward: {world.reward})" if hasattr(world, "opponent") else ""
    facts = ", ".join(f"{name} {value:g}" for name, value in info.items())
    print(f"{policy.about['task']}{duel}, {policy.about['policy']}: return {total:.1f} in {steps} decisions; {facts}")
