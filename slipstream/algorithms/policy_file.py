"""Open policies: our checkpoints, policy files and run folders, and NavRL's weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch

from slipstream.algorithms.base import build_network
from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError, reading_state
from slipstream.checkpoint.load import check_listed, find_file, find_run, is_damage, load_hashed, newest_good
from slipstream.config import registry
from slipstream.config.compose import build_section, flat_settings
from slipstream.config.help import ConfigError, show
from slipstream.config.registry import DEFAULT_TASK
from slipstream.envs.specs import Spec
from slipstream.models import navrl
from slipstream.models.encoders import Specs
from slipstream.models.navrl import is_navrl, load_navrl
from slipstream.models.policy import ModelConfig

HUB = "hf://"
WEIGHTS = "policy.safetensors"  # in the folder of `slipstream card`
NOT_INSTALLED = "needs huggingface_hub: pip install -e '.[hub]'"


@dataclass
class LoadedPolicy:
    """A policy from a file, and the env it was trained in if the file says."""

    state: dict[str, Any]
    path: Path
    kind: str  # slipstream, navrl
    sha256: str  # of the bytes that were loaded

    @property
    def name(self) -> str:
        """The name in tables: the file, and the run it is in."""
        folder = self.path.parent.parent if self.path.parent.name == "checkpoints" else self.path.parent
        return f"{folder.name}/{self.path.name}" if (folder / "config.yaml").is_file() else self.path.name

    def message(self) -> str:
        """Return the line with which a command says which policy it runs."""
        return f"policy: {self.path}, sha256 {self.sha256}"

    def beside(self, name: str) -> Path:
        """Return where a file about this policy goes by default: its run's folder, or here for a file outside of a
        run."""
        try:
            return find_run(self.path.parent) / name
        except FileNotFoundError:
            return Path(name)

    @property
    def trained_env(self) -> dict[str, Any] | None:
        """The `env` section of its training, if the file holds one. Not trusted: it may name code."""
        return dict(self.state["config"]["env"]) if self.kind == "slipstream" else None

    def env_settings(self, default: Any, names: Sequence[str]) -> dict[str, Any]:
        """Return settings of `env.*` in its training, checked; those of `default` where the file has none."""
        given = self.trained_env or {}
        with reading_state(self.path):
            env = build_section(default, {name: given[name] for name in names if name in given})
        return {name: getattr(env, name) for name in names}

    @property
    def task(self) -> str:
        """The name of the task it was trained on. Not trusted: it may name code."""
        return self.state["config"]["task"] if self.kind == "slipstream" else DEFAULT_TASK

    def build(self, env: Any, device: torch.device | str) -> Any:
        """Return the network with these weights, for the observations and actions of `env` (its two specs)."""
        observation_spec, action_spec = env.observation_spec, env.action_spec
        if self.kind == "navrl":
            self._check_navrl(observation_spec, action_spec)
            return load_navrl(self.state).to(device).eval()
        config = self.state["config"]
        with reading_state(self.path):
            model = build_section(ModelConfig(), config["model"])
            weights = self.state["policy"] if "policy" in self.state else self.state["algo"]["policy"]
            registry.find("algorithm", config["algo"]["name"])  # imported here: other packages make tensors then
            own_code = ":" in f"{model.policy}{model.encoder}{config['algo']['name']}"
            try:
                for place in ["cpu"] if own_code else ["meta", "cpu"]:  # first without memory: do the sizes fit?
                    with torch.device(place):
                        policy = build_network(config["algo"], observation_spec, action_spec, model)
                        policy.load_state_dict(weights, assign=place == "meta")
            except RuntimeError as error:
                detail = shorten((str(error) + "\n").split("\n", 2)[1].rstrip(". "), 160, placeholder=" …")
                other = self.other_settings(env)
                reason = (
                    f"set {other} as in its training" if other else f"{detail}. Set task and env.* as in its training"
                )
                raise ValueError(
                    f"it was trained with other observations or actions than this env gives: {reason}."
                ) from error
        return policy.to(device).eval()

    def other_settings(self, env: Any) -> str:
        """Return the settings of its training that change observations or actions and that `env` has otherwise, as
        words: `env.key=value`, or `task=NAME` for another task."""
        config = getattr(env, "config", None)
        if self.trained_env is None or not is_dataclass(config) or isinstance(config, type):
            return ""
        given, own = self.trained_env, asdict(config)
        if not given.keys() <= own.keys():
            return f"task={shorten(self.task, 80)}"
        names = [name for name in getattr(env, "spec_settings", ()) if name in given]
        theirs, mine = (flat_settings({name: section[name] for name in names}, "env.") for section in (given, own))
        with reading_state(self.path):  # a tensor in the place of a number
            other = [key for key in {**theirs, **mine} if _listed(theirs.get(key)) != _listed(mine.get(key))]
        return shorten(" ".join(f"{key}={show(theirs.get(key))}" for key in other), 400, placeholder=" …")

    def _check_navrl(self, observation_spec: Specs, action_spec: Spec) -> None:
        gives = {name: spec.shape for name, spec in observation_spec.items()} | {"action": action_spec.shape}
        for name, spec in {**navrl.OBSERVATION_SPEC, "action": navrl.ACTION_SPEC}.items():
            if gives.get(name) != spec.shape:
                raise ValueError(
                    f"NavRL's network ({self.path}) needs {name} of shape {spec.shape}, this env has {gives.get(name)}"
                )


def _listed(value: Any) -> Any:
    """Return a tuple as a list: files may hold either."""
    return list(value) if isinstance(value, tuple) else value


def load_policy(
    path: str | Path, later: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> LoadedPolicy:
    """Open a checkpoint or policy file, or a run folder: its best policy if that file is good, else its newest good
    checkpoint.

    Args:
        path: the file or folder, the name of one of the `shipped_policies`, or `hf://OWNER/REPO[/FILE][@REVISION]`.
        later: returns the other sections of its config that the caller uses, so that one error names all words to type.

    Raises:
        ConfigError: The file names an algorithm or a network that is not registered (`package.module:Class`) and that
            this process has not been given by the user.
    """
    path, (state, sha256) = _open(_download(str(path)) if str(path).startswith(HUB) else Path(path))
    check_listed(path, sha256)
    if isinstance(state, dict) and is_navrl(state):
        return LoadedPolicy(state, path, "navrl", sha256)
    if not isinstance(state, dict) or "config" not in state or not ("policy" in state or "algo" in state):
        raise ValueError(f"{path} holds neither a Slipstream checkpoint nor NavRL's weights")
    config = check_config(state["config"], path)
    network = {key: config[key] for key in ("algo", "model")}
    registry.refuse_unregistered(network, (), str(path), later(config) if later else {})
    return LoadedPolicy(state, path, "slipstream", sha256)


def check_config(config: Any, source: object) -> dict[str, Any]:
    """Return the config of a file. Raise CorruptCheckpointError if a section is missing or is not one."""
    kinds = {"task": str, "env": dict, "model": dict, "algo": dict}
    wrong = [
        name for name, kind in kinds.items() if not isinstance(config, dict) or not isinstance(config.get(name), kind)
    ]
    if wrong or not isinstance(config["algo"].get("name"), str):
        raise CorruptCheckpointError(f"{source}: its config has no {', '.join(wrong) or 'algo.name'} of the right kind")
    return config


def _open(path: Path) -> tuple[Path, tuple[Any, str]]:
    """Return the file that `path` stands for, its content, and the SHA-256 of it."""
    run = _locate(path)
    if not run.is_dir():
        return run, load_hashed(run)
    best = run / "best.pt"
    if best.exists():
        try:
            return best, load_hashed(best)
        except (CheckpointError, OSError) as error:
            if not is_damage(error):
                raise
            why = str(error).removeprefix(f"{best}: ")
            print(
                f"best.pt is broken ({why}): taking the newest good checkpoint of {run} instead; delete or rename it",
                file=sys.stderr,
            )
    return newest_good(run / "checkpoints", load_hashed, log=lambda text: print(text, file=sys.stderr))


def shipped_policies() -> dict[str, Path]:
    """Return the policies that ship with the tasks, by name."""
    folders = [folder for _, folder in registry.task_folders()]
    files = (file for folder in folders for file in sorted((folder / "weights").glob("*.pt*")))
    return {file.name.partition(".pt")[0]: file for file in files}


def _download(address: str) -> Path:
    """Return a file of the Hugging Face Hub, from its cache if it is there."""
    name, _, revision = address.removeprefix(HUB).partition("@")
    owner, repository, *file = name.split("/", 2) if "/" in name else ("", name)
    if not owner or not repository:
        raise ConfigError(f"{address} must be hf://OWNER/REPO, or a file in it: hf://OWNER/REPO/FILE@REVISION")
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ImportError(f"{address} {NOT_INSTALLED}") from error
    return Path(hf_hub_download(f"{owner}/{repository}", file[0] if file else WEIGHTS, revision=revision or None))


def _locate(path: Path) -> Path:
    """Return the run folder or the file that `path` means, or the policy that ships under this name."""
    try:
        return find_run(path) if path.is_dir() else find_file(path)
    except FileNotFoundError as error:
        shipped = shipped_policies() if path.parent == Path() else {}
        if path.name in shipped:
            return shipped[path.name]
        names = f"; policies that ship with the package: {', '.join(sorted(shipped))}" if shipped else ""
        raise FileNotFoundError(f"{error}{names}") from None
