"""Opens policies: our checkpoints, policy files and run folders, NavRL's weights, and the policy that ships with the package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch

from slipstream.algorithms.learner import Policy, build_network
from slipstream.checkpoint.errors import CheckpointError
from slipstream.checkpoint.load import checkpoints_of, find_file, is_damage, load_checked, newest_good
from slipstream.envs.specs import Spec
from slipstream.models import navrl
from slipstream.models.navrl import is_navrl, load_navrl
from slipstream.models.policy import ModelConfig
from slipstream.training.run_folder import RunFolder

SHIPPED = {
    task: Path(__file__).parents[1] / "tasks" / task / "weights" / f"{task}.pt" for task in ("navigation", "aircombat")
}


@dataclass
class LoadedPolicy:
    """A policy from a file, and the world it was trained in where the file says."""

    state: dict[str, Any]
    path: Path
    kind: str  # slipstream, navrl

    @property
    def name(self) -> str:
        """What tables call it: the file, and the run it lies in."""
        folder = self.path.parent.parent if self.path.parent.name == "checkpoints" else self.path.parent
        return f"{folder.name}/{self.path.name}" if (folder / "config.yaml").is_file() else self.path.name

    def beside(self, name: str) -> Path:
        """Where what is drawn of it goes by itself: into its run's folder, or here for a file that lies in no run."""
        try:
            return RunFolder.open(self.path.parent).path / name
        except FileNotFoundError:
            return Path(name)

    @property
    def trained_env(self) -> dict[str, Any] | None:
        """The `env` section of its training, where the file holds one."""
        return dict(self.state["config"]["env"]) if self.kind == "slipstream" else None

    @property
    def task(self) -> str:
        """The task it was trained on."""
        return self.state["config"]["task"] if self.kind == "slipstream" else "navigation"

    def build(self, observation_spec: dict[str, Spec], action_spec: Spec, device: torch.device | str) -> Policy:
        """The network with these weights, for an env of these specs."""
        if self.kind == "navrl":
            self._check_navrl(observation_spec, action_spec)
            return load_navrl(self.state).to(device).eval()
        config = self.state["config"]
        policy = build_network(config["algo"], observation_spec, action_spec, ModelConfig(**config["model"]))
        weights = self.state["policy"] if "policy" in self.state else self.state["algo"]["policy"]
        try:
            policy.load_state_dict(weights)
        except RuntimeError as error:
            detail = shorten(str(error).split("\n", 2)[1], 160, placeholder=" …")
            raise ValueError(
                f"{self.path} was trained with other observations or actions than this env gives: {detail}. "
                "Set task and env.* as in its training."
            ) from error
        return policy.to(device).eval()

    def _check_navrl(self, observation_spec: dict[str, Spec], action_spec: Spec) -> None:
        gives = {name: spec.shape for name, spec in observation_spec.items()} | {"action": action_spec.shape}
        for name, spec in {**navrl.OBSERVATION_SPEC, "action": navrl.ACTION_SPEC}.items():
            if gives.get(name) != spec.shape:
                raise ValueError(
                    f"NavRL's network ({self.path}) needs {name} of shape {spec.shape}, this env has {gives.get(name)}"
                )


def load_policy(path: str | Path | None, task: str = "navigation") -> LoadedPolicy:
    """Opens a checkpoint or policy file, a run folder, or the policy for `task` that ships with us.

    Of a run folder it is the best policy if that file is whole, else the newest good checkpoint.
    """
    if not path and task not in SHIPPED:
        raise ValueError(f"no policy for task={task} ships with the package: name one with checkpoint=runs/NAME")
    path, state = _open(Path(path) if path else SHIPPED[task])
    if isinstance(state, dict) and is_navrl(state):
        return LoadedPolicy(state, path, "navrl")
    if not isinstance(state, dict) or "config" not in state or not ("policy" in state or "algo" in state):
        raise ValueError(f"{path} holds neither a Slipstream checkpoint nor NavRL's weights")
    return LoadedPolicy(state, path, "slipstream")


def _open(path: Path) -> tuple[Path, Any]:
    """The file that `path` means, and what is in it."""
    if not path.is_dir():
        return path, load_checked(find_file(path))
    run = RunFolder.open(path)
    best = run.path / "best.pt"
    if best.exists():
        try:
            return best, load_checked(best)
        except (CheckpointError, OSError) as error:
            if not is_damage(error):
                raise
            why = str(error).removeprefix(f"{best}: ")
            remedy = f"`slipstream ckpt repair {run.path}` puts it aside"
            print(
                f"best.pt is broken ({why}): taking the newest good checkpoint of {run.path} instead; {remedy}",
                file=sys.stderr,
            )
    return newest_state(run)


def newest_state(run: RunFolder) -> tuple[Path, Any]:
    """The newest checkpoint of a run that is whole, and its state; broken ones are told on stderr, with the remedy."""
    found = newest_good(run.checkpoints)
    if found.broken:
        print(found.message(run.path), file=sys.stderr)
    return found.path, found.content


def latest_checkpoint(folder: Path) -> Path:
    """The newest checkpoint of a run, by its iteration, whole or not; without the ending that tells its form."""
    newest = checkpoints_of(folder)[0]
    return newest.with_name(newest.name.partition(".")[0] + ".pt")
