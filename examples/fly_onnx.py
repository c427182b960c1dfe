"""Flies one episode with an exported policy: NumPy and onnxruntime decide, PyTorch only moves the world.

    slipstream export --to onnx out=policy.onnx        # the policy that ships; checkpoint=runs/NAME for one of yours
    python examples/fly_onnx.py policy.onnx
"""

import json
import sys

import gymnasium
import numpy as np
import onnxruntime

import slipstream.envs.adapters  # noqa: F401  (makes our tasks known to Gymnasium)


class OnnxPolicy:
    """An exported policy: one observation in, one action out."""

    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.about = self.session.get_modelmeta().custom_metadata_map  # task, env, observations, action
        self.inputs = [part.name for part in self.session.get_inputs()]

    def __call__(self, observation):
        batch = {name: np.asarray(observation[name])[None] for name in self.inputs}  # any batch size will do
        return self.session.run(["action"], batch)[0][0]


def make_env(about):
    """The world that the policy was trained in, as its file tells it."""
    return gymnasium.make(about["gymnasium"], config=json.loads(about["env"]))


def fly(env, policy, seed=0):
    """One episode; gives its return, its length and the facts of its end."""
    observation, _ = env.reset(seed=seed)
    total, steps, over = 0.0, 0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        total, steps, over = total + reward, steps + 1, terminated or truncated
    return total, steps, info


if __name__ == "__main__":
    policy = OnnxPolicy(sys.argv[1] if len(sys.argv) > 1 else "policy.onnx")
    total, steps, info = fly(make_env(policy.about), policy, seed=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    told = ", ".join(f"{name} {value:g}" for name, value in info.items())
    print(f"{policy.about['task']}, {policy.about['policy']}: return {total:.1f} in {steps} decisions; {told}")
