"""slipstream export: write a policy as one file that runs without Slipstream.

    slipstream export checkpoint=runs/NAME --to onnx                            # for onnxruntime, TensorRT, ...
    slipstream export checkpoint=navrl_checkpoint.pt --to pt2 out=policy.pt2    # a torch.export program, for torch
    slipstream export checkpoint=runs/NAME --to html                            # a page that flies it in the browser

  checkpoint=   a checkpoint, a run folder, a NavRL checkpoint or a shipped policy's name; default: the task's own
  --to          onnx, pt2 or html; default: the suffix of out=
  out=          the file to write; default: policy.onnx in the run's folder (ckpt_000100.onnx for that checkpoint),
                or else the policy's name in the current folder
  task=, env.*  the task and env of the training, if the checkpoint does not hold them
  model.policy=, model.encoder=, algo=   your own network or algorithm (my_module:Net), if it was trained with one

The file takes the policy's observations by name, for any batch size. It returns the action of an evaluation (the mean,
or the most likely discrete action), scaled and masked as the env expects it. Its metadata hold the observations,
bounds and task. A policy with memory also takes `memory` (zeros at the start of an episode) and returns `memory_out`,
the input of the next step. A page (html, for drones) holds the ONNX file and computes world and policy itself: it
opens from disk, on new maps, without noise and wind.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import io
import json
import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.cli import add_force, check_output
from slipstream.config import registry
from slipstream.config.compose import to_dict
from slipstream.config.help import ConfigError, nearest
from slipstream.config.overrides import split_keys
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Discrete, Hybrid, Observation, Spec
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.memory import MEMORY, memory_size
from slipstream.recordings.export import page
from slipstream.storage.files import check_writable, default_output, write_file
from slipstream.training.evaluate import configure, trusts_code
from slipstream.ui.tables import progress_bar

FORMATS = ("onnx", "pt2", "html")
OWN_KEYS = ("to", "out")
add_arguments = add_force  # besides the keys
MEMORY_OUT = "memory_out"  # the memory after the step, of a policy that has one
CHECKED = (16, 32)  # environments and steps that give the observations on which the exported policy is compared


class ActingPolicy(nn.Module):
    """The policy as a function of its inputs, in the order of `keys`, to the action of an evaluation.

    Inputs are the observations, then the memory if the policy has one; it then also returns the memory after the step.
    """

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy
        self.memory_size = memory_size(policy)
        self.keys: tuple[str, ...] = (*policy.keys, MEMORY) if self.memory_size else policy.keys
        self.outputs: tuple[str, ...] = ("action", MEMORY_OUT) if self.memory_size else ("action",)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The action [N, ...], or the action and the memory after the step [N, memory_size]."""
        with set_exploration_type(ExplorationType.MEAN):
            output = self.policy(dict(zip(self.keys, inputs, strict=True)))
        return (output["action"], output[MEMORY]) if self.memory_size else output["action"]


@dataclass
class Exported:
    """What an export wrote."""

    path: Path
    inputs: tuple[str, ...]
    difference: float | None  # largest to PyTorch's action in a flight; None: onnxruntime is not installed
    outputs: tuple[str, ...] = ("action",)


def run(args: argparse.Namespace) -> int:
    """Export a policy, and print how far its actions are from PyTorch's."""
    own, words = split_keys(args.words, OWN_KEYS)
    for word in words:
        if word.key not in ("checkpoint", "task") and not word.key.startswith("env.") and not trusts_code(word):
            known = (*OWN_KEYS, "checkpoint", "task")
            raise ConfigError(f"unknown key '{word.key}'{nearest(word.key, known)} (see slipstream export --help)")
    own.setdefault("to", Path(own.get("out", "")).suffix[1:])
    if not own["to"]:
        raise ConfigError("name the format: slipstream export checkpoint=runs/NAME --to onnx")
    out = check_output(own.get("out"), args.force, own["to"], FORMATS)
    cfg, trained = configure(words)
    with progress_bar(f"exporting {trained.name}"):
        done = export_policy(trained, cfg.task, cfg.env, own["to"], out)
    print(f"{done.path}: takes {', '.join(done.inputs)}; gives {', '.join(done.outputs)}")
    if done.difference is not None:
        print(f"largest difference to PyTorch over {math.prod(CHECKED)} observations in flight: {done.difference:.1e}")
    return 0


def export_policy(trained: LoadedPolicy, task: str, env_config: Any, to: str, out: Path | None = None) -> Exported:
    """Writes the policy, built for an env of `task` with `env_config`, to `out`."""
    if to not in FORMATS:
        raise ConfigError(f"cannot export to '{to}': use --to {' or --to '.join(FORMATS)}")
    if to == "html":
        registry.find_task(task).check_page(env_config)
    for package in ("onnx", "onnxscript") if to != "pt2" else ():
        if importlib.util.find_spec(package) is None:
            raise ImportError(f"exporting to ONNX needs {package}: pip install -e '.[export]'")
    path = out or default_output(_default_path(trained, to))
    check_writable(path)  # before seconds of work
    env = _small_env(task, env_config)
    policy = ActingPolicy(trained.build(env, "cpu")).eval()
    flown = _observations(env, policy)
    about = describe(trained, task, env_config, env, policy)
    program = torch_program(policy, {name: flown[name][:2] for name in policy.keys})
    data = _pt2_bytes(program, about) if to == "pt2" else _onnx_bytes(program, policy, about)
    write_file(
        path, page(Path(trained.name).name.partition(".pt")[0], "policy", data).encode() if to == "html" else data
    )
    return Exported(path, policy.keys, _difference(data, to, policy, flown), policy.outputs)


def torch_program(policy: ActingPolicy, sample: Observation) -> torch.export.ExportedProgram:
    """The policy as a graph of plain operations, for any batch size."""
    batch = torch.export.Dim("batch", min=1)
    shapes = (tuple({0: batch} for _ in policy.keys),)
    with torch.no_grad(), _quiet():
        return torch.export.export(policy, tuple(sample[name] for name in policy.keys), dynamic_shapes=shapes)


def describe(trained: LoadedPolicy, task: str, env_config: Any, env: TensorEnv, policy: ActingPolicy) -> dict[str, str]:
    """What the file says of itself: text, or JSON."""
    found = registry.find_task(task)
    left_out = {"num_envs", *found.export_settings}  # of a training's many environments, not of what one policy meets
    settings = {name: value for name, value in to_dict(env_config).items() if name not in left_out}
    if trained.task == task:  # the file says what the policy was trained with, not what an evaluation puts in its place
        trained_env = trained.trained_env or {}
        replaced = found.evaluation_settings.items()
        settings |= {name: trained_env[name] for name, value in replaced if settings[name] == value}
    about = {
        "slipstream": version("slipstream-rl"),
        "policy": trained.name,
        "task": task,
        "env": json.dumps(settings),
        "observations": json.dumps({name: spec_facts(env.observation_spec[name]) for name in policy.policy.keys}),
        "action": json.dumps(spec_facts(env.action_spec)),
    }
    if policy.memory_size:
        facts = {"shape": [policy.memory_size], "dtype": "float32", "start": 0, "output": MEMORY_OUT}
        about[MEMORY] = json.dumps(facts)
    if facts := found.deployment(env_config):
        about["deploy"] = json.dumps(facts)
    ids = {target: id for id, target in registry.names("gymnasium").items()}
    known = ids.get(f"{type(env).__module__}:{type(env).__name__}")
    return about | ({"gymnasium": known} if known else {})


def spec_facts(spec: Spec) -> dict[str, Any]:
    """A spec in plain data; a bound that is not there is null."""
    finite = lambda x: x if math.isfinite(x) else None  # noqa: E731
    facts: dict[str, Any] = {"shape": list(spec.shape), "dtype": str(spec.dtype).removeprefix("torch.")}
    if isinstance(spec, Discrete):
        return facts | {"kind": "discrete", "n": spec.n}
    if isinstance(spec, Hybrid):
        low, high = map(list, zip(*spec.bounds, strict=True))
        facts |= {"kind": "hybrid", "low": low, "high": high}
        return facts | {"switches": spec.switches, "mask": spec.mask, "names": list(spec.names)}
    return facts | {"kind": "box", "low": finite(spec.low), "high": finite(spec.high)}


# -- inside ----------------------------------------------------------------------------------------------------------


def _small_env(task: str, config: Any) -> TensorEnv:
    """The env of the policy with a few environments, on a CPU."""
    found = registry.find_task(task)
    return found.make_env(dataclasses.replace(config, num_envs=CHECKED[0], **found.export_settings), "cpu", 0)


@torch.no_grad()
def _observations(env: TensorEnv, policy: ActingPolicy) -> Observation:
    """What the policy sees in a short flight, each [environments · steps, ...]."""
    seen: dict[str, list[Tensor]] = {name: [] for name in policy.keys}
    observation = env.reset()
    memory = torch.zeros(env.num_envs, policy.memory_size)
    for _ in range(CHECKED[1]):
        inputs = [memory if name == MEMORY and policy.memory_size else observation[name] for name in policy.keys]
        for name, x in zip(policy.keys, inputs, strict=True):
            seen[name].append(x.clone())
        action, *after = _as_tuple(policy(*inputs))
        record = env.step(action)
        observation = record.observation
        memory = torch.where(record.valid[:, None], after[0], 0.0) if after else memory
    return {name: torch.cat(parts) for name, parts in seen.items()}


def _onnx_bytes(program: torch.export.ExportedProgram, policy: ActingPolicy, about: dict[str, str]) -> bytes:
    batch = torch.export.Dim("batch", min=1)
    with _quiet():
        model = torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(policy.keys),
            output_names=list(policy.outputs),
            dynamic_shapes=(tuple({0: batch} for _ in policy.keys),),
            verbose=False,
        )
    assert model is not None
    proto = model.model_proto
    for name, value in about.items():
        proto.metadata_props.add(key=name, value=value)
    return proto.SerializeToString()


def _pt2_bytes(program: torch.export.ExportedProgram, about: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files=about)
    return buffer.getvalue()


@torch.no_grad()
def _difference(data: bytes, to: str, policy: ActingPolicy, flown: Observation) -> float | None:
    """How far the written file's actions are from the policy's; None where onnxruntime is not installed."""
    expected = _as_tuple(policy(*(flown[name] for name in policy.keys)))
    if to == "pt2":
        got = _as_tuple(torch.export.load(io.BytesIO(data)).module()(*(flown[name] for name in policy.keys)))
    else:
        try:
            import onnxruntime
        except ImportError:
            return None
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        found = session.run(list(policy.outputs), {name: flown[name].numpy() for name in policy.keys})
        got = tuple(map(torch.from_numpy, found))
    return max(float((x.double() - y.double()).abs().max()) for x, y in zip(got, expected, strict=True))


def _as_tuple(output: Any) -> tuple[Tensor, ...]:
    return (output,) if isinstance(output, Tensor) else tuple(output)


def _default_path(trained: LoadedPolicy, to: str) -> Path:
    """Return the policy's name in the folder of its run, or here if it is in no run; `policy` for the best one."""
    name = trained.path.name.split(".")[0]
    runs = [x for x in (trained.path.parent, trained.path.parent.parent) if (x / "config.yaml").is_file()]
    return (runs[0] if runs else Path()) / f"{'policy' if name == 'best' else name}.{to}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on packages that are not installed and names that it changes."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
