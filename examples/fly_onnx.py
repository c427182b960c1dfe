"""Fly one episode with an exported policy: NumPy and onnxruntime decide, PyTorch only simulates the world.

slipstream export --to onnx out=policy.onnx    # the shipped policy; checkpoint=runs/NAME for yours
python examples/fly_onnx.py policy.onnx    # optional: seed, opponent of a duel, your env: 1 pursuit task=my_module:Env
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from slipstream.config import registry
from slipstream.envs.adapters import gymnasium_env
from slipstream.storage.errors import printable


class OnnxPolicy:
    """An exported policy: one observation in, one action out."""

    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.about = self.session.get_modelmeta().custom_metadata_map  # task, env, observations, action
        self.inputs = [part.name for part in self.session.get_inputs()]
        shape = json.loads(self.about.get("memory", "{}")).get("shape")  # of a policy with memory: zeros at first
        self.memory = {"memory": np.zeros((1, *shape), np.float32)} if shape else {}

    def __call__(self, observation):
        batch = {name: np.asarray(observation[name])[None] for name in self.inputs if name not in self.memory}
        action, *after = self.session.run(None, batch | self.memory)  # any batch size will do
        self.memory = dict(zip(self.memory, after, strict=True))
        return action[0]


def make_env(about, opponent="crank", typed=()):
    """Return the env of the training, from the file's metadata. Code that it names is imported only if typed, too."""
    settings = json.loads(about["env"])
    settings |= {"opponent": opponent} if "opponent" in settings else {}
    registry.refuse_unregistered({"task": about["task"], "env": settings}, typed, "the ONNX file")
    kind = registry.find_task(about["task"]).env
    return gymnasium_env.make_env(f"{kind.__module__}:{kind.__name__}", config=settings)


def fly(env, policy, seed=0):
    """Fly one episode. Return its return, its length and its last info."""
    observation, total, steps, over = env.reset(seed=seed)[0], 0.0, 0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        total, steps, over = total + reward, steps + 1, terminated or truncated
    return total, steps, info


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if "=" not in word]
    path, seed, opponent = [*words, *["policy.onnx", 0, "crank"][len(words) :]]
    if not Path(path).is_file():
        sys.exit(f"there is no file {path}: write it with slipstream export --to onnx out={path}")
    try:
        policy = OnnxPolicy(path)
        env = make_env(policy.about, opponent, typed=sys.argv[1:])
    except Exception as error:  # the file is not trusted: it may be anything
        sys.exit(printable(f"{path} cannot be flown: {error}", keep=""))
    total, steps, info = fly(env, policy, int(seed))
    duel = f" against {opponent} (reward: {env.env.config.reward})" if '"opponent"' in policy.about["env"] else ""
    task, name = (printable(policy.about[key]) for key in ("task", "policy"))
    print(f"{task}{duel}, {name}: return {total:.1f} in {steps} decisions;", end=" ")
    print(*(f"{name} {value:g}" for name, value in info.items()), sep=", ")
