"""Task: everything that is specific to a problem. The core knows tasks by this class alone.

A task of another package is a subclass, registered by an entry point:

    [project.entry-points."slipstream.tasks"]
    docking = "docking.task:DockingTask"
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.config.help import ConfigError
from slipstream.config.schema import EvaluateConfig, TrainConfig
from slipstream.envs.base import TensorEnv
from slipstream.recordings import Recording
from slipstream.sim.random import derive_seed
from slipstream.tasks.evaluation import MAX_STEPS, Policy, TrainingEvaluation, fly_each, fly_episodes, with_intervals
from slipstream.ui.figures import learning_curve, own_metrics
from slipstream.ui.tables import TextTable, format_number, format_percent, progress_bar

MIN_CURVE_ITERATIONS = 10  # of a run whose curves are drawn
MOST_OWN_CURVES = 4


class Controller(Protocol):
    """Changes a training between its iterations, by what its evaluations show: a league, a curriculum."""

    name: str  # of its state in a checkpoint

    def evaluate(self) -> dict[str, float]:
        """Evaluate the policy, update the curriculum and return the metrics."""

    def checkpoint_tags(self) -> list[str]:
        """Return the names under which the policy just evaluated is to be kept."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that it continues from."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""


class Game(Protocol):
    """A problem that people can play in the browser, against its agents or one another. One thread steps it."""

    scene: str  # which view of the page shows it
    step_s: float  # game time of one step
    neutral: Sequence[float]  # the controls of a person who touches nothing
    names: tuple[str, str]  # of both sides

    def describe(self) -> dict[str, Any]:
        """Return what the page offers: opponents, starts, modes, controls."""

    def setup(self) -> Recording:
        """Return what the page needs once, as a recording without rows: scenery and tables."""

    def start(self, options: Mapping[str, Any]) -> None:
        """Begin a game. Raises ValueError for options that do not exist."""

    def step(self, controls: Sequence[Sequence[float]]) -> None:
        """Advance by `step_s` with the controls of each side."""

    def state(self) -> bytes:
        """Return the present state as the page reads it."""

    def snapshot(self) -> Any:
        """Return a copy of what `extras` needs, if anything."""
        return None

    def extras(self, snapshot: Any) -> bytes | None:
        """Compute what is shown beside, if anything, several times a second, in another thread."""
        return None

    def result(self) -> dict[str, Any] | None:
        """Return the end of the game, with its scores as (winner, loser, draw); None while it runs."""

    def recording(self, title: str) -> Recording | None:
        """Return the game so far; None if there is too little of it."""

    def ratings(self, scores: Mapping[tuple[str, str], Sequence[int]]) -> dict[str, float]:
        """Rate everybody in games won, drawn and lost by pair; nobody by default."""
        return {}


class Task:
    """A problem to train a policy for. This class itself serves any TensorEnv: `task=my_module:MyEnv`.

    A subclass sets `env` and overrides what its problem needs. The folder of its module may hold `presets/NAME.yaml`,
    `tuned/NAME-ALGO.yaml` (the settings of an algorithm for a preset or for the task), `defaults.yaml` and
    `weights/TASK.pt.slip`.
    """

    env: type[TensorEnv]
    TrainConfig: ClassVar[type[TrainConfig]] = TrainConfig  # a subclass may add sections and keys
    EvaluateConfig: ClassVar[type[EvaluateConfig]] = EvaluateConfig
    # Keys that `evaluate` sets itself or does not use: the key to use instead, if there is one.
    set_by_evaluation: ClassVar[Mapping[str, str]] = {
        "env.num_envs": "eval.num_drones",
        **dict.fromkeys(("eval.map_seeds", "eval.static_too"), ""),
    }
    evaluation_settings: ClassVar[Mapping[str, Any]] = {}  # of env.*, in place of those of the policy's training
    names_policies: ClassVar[bool] = False  # whether `evaluate` itself prints which policy files it runs
    export_settings: ClassVar[Mapping[str, Any]] = {}  # of env.*, for the small env that checks an exported policy
    # Of a training against one frozen agent `{}`, for `slipstream exploit`; `evaluate` plays red= against blue= then.
    words_against: ClassVar[Sequence[str]] = ()
    game_help: ClassVar[str] = ""  # the keys of its game, for `slipstream play --help`
    shown_info: ClassVar[Sequence[str] | None] = None  # info keys in the terminal and learning.png; None: the first few

    def __init__(self, name: str, env: type[TensorEnv] | None = None) -> None:
        self.name = name
        # The folder of the task's module, with its presets. None in a notebook, and for a user's env: its folder may
        # hold any YAML files.
        file = getattr(sys.modules.get(type(self).__module__), "__file__", None) if env is None else None
        self.folder: Path | None = Path(file).parent if file else None
        if env is not None:
            self.env = env

    @property
    def weights(self) -> Path | None:
        """The policy that ships with the task."""
        found = sorted((self.folder / "weights").glob(f"{self.name}.pt*")) if self.folder else []
        return found[0] if found else None

    def policy_file(self, name: str) -> str:
        """Return the path that a policy's name means: the one that ships with the task for `learned`."""
        return str(self.weights) if name == "learned" and self.weights else name

    def check_page(self, env_config: Any) -> None:
        """Raise ConfigError if the viewer's page cannot fly a policy by itself in this env."""
        raise ConfigError(f"no page flies policies of task {self.name}: use --to onnx or --to pt2")

    # -- training ----------------------------------------------------------------------------------------------------

    def make_env(self, config: Any, device: torch.device | str, seed: int, num_envs: int | None = None) -> TensorEnv:
        """Build the env with `config.num_envs` environments, or with another number of them."""
        return self.env(config.num_envs if num_envs is None else num_envs, device, seed, config)  # type: ignore[call-arg, arg-type]

    def check_training(self, cfg: Any) -> None:
        """Raise ConfigError if a training cannot be run with this config."""

    def make_controller(self, cfg: Any, env: TensorEnv, policy: Any) -> Controller | None:
        """Return what changes the training between iterations; None if nothing does."""
        return None

    def make_evaluation(self, cfg: Any, policy: Policy, device: torch.device) -> TrainingEvaluation:
        """Return the evaluations of a training; a metric of theirs without `/` becomes `eval/KEY`."""

        def evaluate() -> dict[str, float]:
            env = self.make_env(cfg.env, device, derive_seed(cfg.seed, "evaluation"), cfg.eval.num_drones)
            return fly_episodes(env, policy, cfg.eval.max_steps)

        return TrainingEvaluation(policy, evaluate)

    def draw_learning(self, folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the curves of a run (`rows` of its metrics) into its folder.

        Raises:
            ValueError: There is nothing to draw; the message says why.
        """
        if len(rows) < MIN_CURVE_ITERATIONS:
            needs = f"is drawn from {MIN_CURVE_ITERATIONS} iterations on"
            raise ValueError(f"learning.png {needs}, this run has {len(rows)}")
        own = own_metrics(rows)[:MOST_OWN_CURVES] if self.shown_info is None else self.shown_info
        learning_curve(rows, folder / "learning.png", folder.name, own)

    def words_of_report(self, cfg: Any, folder: Path) -> list[str]:
        """Return the words of `slipstream exploit` that complete the report of a run in `folder`; none by default."""
        return []

    # -- the command `eval` --------------------------------------------------------------------------------------------

    def policy_path(self, overrides: Sequence[str]) -> str | None:
        """Return the policy that the overrides of an evaluation name other than by checkpoint=."""
        return None

    def evaluate(
        self, cfg: Any, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]
    ) -> dict[str, Any]:
        """Evaluate a policy: print tables with `log`, draw figures, and return the result as plain data."""
        if cfg.compare:
            raise ConfigError(f"compare= has no meaning for task={cfg.task}: evaluate {cfg.compare} by itself")
        if cfg.out:
            raise ConfigError(f"out={cfg.out} has no meaning for task={cfg.task}: its evaluation writes no file")
        env = self.make_env(cfg.env, device, cfg.seed, cfg.eval.num_drones)
        torch.manual_seed(cfg.seed)  # for envs that draw from torch itself
        policy = trained.build(env, device)
        with progress_bar(f"flying {env.num_envs:,} episodes") as progress:
            figures = fly_each(env, policy, cfg.eval.max_steps, progress)
        result: dict[str, Any] = with_intervals(figures, cfg.eval.bootstrap)
        log(_figures_table(f"{trained.name}: {env.num_envs:,} episodes", result, list(figures)).render())
        result |= {"episodes": cfg.eval.num_drones, "checkpoint": str(trained.path)}
        if "unfinished" in result:
            steps = cfg.eval.max_steps or MAX_STEPS
            share = format_percent(result["unfinished"], 0)
            unfinished = f"{share} of the episodes had not ended after {steps:,} steps"
            log(f"{unfinished} and count as they are: raise eval.max_steps")
        return result

    def validate(
        self, cfg: Any, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]
    ) -> dict[str, Any]:
        """Fly a policy in the task's simulator and in another one, print how far they agree, and return the result."""
        raise ConfigError(f"task={self.name} has no second simulator to validate with")

    @property
    def can_record(self) -> bool:
        """Whether `record` makes a recording: whether the viewer has a scene of the task."""
        return type(self).record is not Task.record

    def record(self, cfg: Any, trained: LoadedPolicy) -> Recording:
        """Fly a policy for a short time on the CPU and return the recording, for `slipstream view`; with its
        `draw_film`, if TensorBoard and W&B shall get one."""
        raise ConfigError(f"task={self.name} has no scene for the viewer")

    def rollout_of(self, recording: Recording) -> dict[str, Any]:
        """Return what people observed and did in a recording, as a batch [people, steps] for rollout files."""
        raise ConfigError(f"recordings of task={self.name} hold no actions to learn from")

    # -- other commands ------------------------------------------------------------------------------------------------

    def show_map(self, env_config: Any, out: Path) -> None:
        """Draw the map of `slipstream map show`, and print its size."""
        raise ConfigError(f"task={self.name} has no maps")

    def make_demo(self, cfg: Any) -> Any:
        """Return the task's part of `slipstream demo`: an object whose `before()` shows how it is without training, and
        whose `after(folder, metrics)` shows the trained policy."""
        raise ConfigError(f"task={self.name} has no demo")

    def deployment(self, config: Any) -> dict[str, Any]:
        """Return what an exported file says for `slipstream fly`, in plain data; nothing if it flies no real drone."""
        return {}

    def serve_vehicle(self, cfg: Any, trained: LoadedPolicy, link: Any, words: Sequence[str]) -> dict[str, Any]:
        """Fly a simulated vehicle that talks over `link` alone, for `slipstream fly`; return what happened."""
        raise ConfigError(f"task={self.name} has no vehicle to fly against")

    def make_game(self, words: Sequence[str]) -> Game:
        """Return the game of `slipstream play` for its key=value words."""
        raise ConfigError(f"task={self.name} cannot be played")


def _figures_table(title: str, result: Mapping[str, Any], names: Sequence[str]) -> TextTable:
    """Return the mean of each figure with its interval."""
    rows = []
    for name in names:
        low, high = result[f"{name}_low"], result[f"{name}_high"]
        interval = "–" if low is None else f"{format_number(low)} … {format_number(high)}"
        rows.append([name, format_number(result[name]), interval])
    return TextTable(title, ["figure", "mean", "95 % interval"], rows, left=1)


def as_task(found: Any, name: str) -> Task:
    """Return what is registered or typed as a task's name as a Task: a Task, a subclass of it, or a TensorEnv class."""
    if isinstance(found, Task):
        return found
    if isinstance(found, type) and issubclass(found, Task):
        return found(name)
    if not (isinstance(found, type) and issubclass(found, TensorEnv)):
        module, _, attribute = name.partition(":")
        others = "a Gymnasium env is task=gym env.id=my_module:MyEnv-v0, a TorchRL env task=torchrl env.factory=my_module:make_env"
        raise ConfigError(f"task={name}: {module} has no TensorEnv subclass named {attribute} ({others})")
    config = getattr(found, "Config", None)
    if not is_dataclass(config) or "num_envs" not in {f.name for f in fields(config)}:
        must_be = "must be the dataclass of its settings, with a field num_envs"
        raise ConfigError(f"task={name}: {found.__name__}.Config {must_be}")
    return Task(name, found)
