"""The air-combat task: duels beyond visual range, a league of opponents, games between agents as evaluation."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slipstream.config import registry
from slipstream.config.compose import read_options
from slipstream.config.help import ConfigError
from slipstream.config.overrides import value_of
from slipstream.config.schema import EvaluateConfig, TrainConfig
from slipstream.envs.base import TensorEnv
from slipstream.models.policy import ActorCritic
from slipstream.sim.random import derive_seed
from slipstream.tasks.aircombat.agents import is_checkpoint
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league import evaluation
from slipstream.tasks.aircombat.league.league import League, LeagueConfig
from slipstream.tasks.aircombat.recording import rollout_of
from slipstream.tasks.base import Controller, Game, Task


@dataclass
class AirCombatTrainConfig(TrainConfig):
    """The config of a training, with the league's."""

    league: LeagueConfig = field(default_factory=LeagueConfig)


@dataclass
class AirCombatEvaluateConfig(EvaluateConfig):
    """The config of an evaluation, with the agents that play."""

    red: str | None = None  # agents by name or checkpoint, comma-separated; default: the shipped policy
    blue: str | None = None  # opponents of red; default: pursuit, crank, evade and the one that red was trained on
    games: int = 1000  # per pair, half of them with swapped sides


class AirCombatTask(Task):
    """One side learns against scripted agents, or against past policies in a league."""

    env = AirCombatEnv
    TrainConfig = AirCombatTrainConfig
    EvaluateConfig = AirCombatEvaluateConfig
    set_by_evaluation = {
        **{"env.num_envs": "games", "env.opponent": "blue", "env.sides": "red and blue", "eval.num_drones": "games"},
        **dict.fromkeys(("eval.map_seeds", "eval.max_steps", "eval.static_too", "eval.bootstrap"), ""),
    }
    evaluation_settings = {"opponent": "placeholder", "reward": "zero"}  # the names of the training may not exist here
    names_policies = True  # of red= and blue=
    export_settings = {"sides": 1}
    words_against = ("env.opponent={}", "env.sides=1", "league.enabled=false")
    shown_info = ("lost", "draw")  # of the facts of a duel, beside success
    evaluate = staticmethod(evaluation.evaluate)
    record = staticmethod(evaluation.record_game)
    rollout_of = staticmethod(rollout_of)
    game_help = "a duel; opponent=pursuit, crank, evade, learned, ...; start=head_on or random; seconds=60; seed=0"

    def check_training(self, cfg: Any) -> None:
        """Raise ConfigError for two acting sides, or an opponent beside a league."""
        if cfg.env.sides != 1:
            remedy = "leave env.sides=2 out and name opponent=AGENT; for self-play use preset=aircombat"
            raise ConfigError(f"a training flies one side: {remedy}")
        if not cfg.league.enabled:
            return
        if cfg.collect.pipeline != "off":
            raise ConfigError("a league changes the opponents between iterations: leave collect.pipeline=off")
        if cfg.league.exploit_s and "RANK" in os.environ:
            raise ConfigError("league.exploit_s needs one process: leave it out, and give slipstream exploit the run")
        if cfg.env.opponent != AirCombatConfig.opponent:
            remedy = f"leave opponent={cfg.env.opponent} out, or give league.enabled=false"
            raise ConfigError(f"the league chooses the opponents: {remedy}")

    def make_controller(self, cfg: Any, env: TensorEnv, policy: Any) -> Controller | None:
        """Return the league that flies the env's opponents, if there is one."""
        if not cfg.league.enabled:
            return None
        if not isinstance(policy, ActorCritic):
            raise ConfigError(f"league.enabled=true needs a policy of algo=ppo, not of algo={cfg.algo.name}")
        if policy.memory_size:
            raise ConfigError("a league flies past policies without memory: model.memory needs league.enabled=false")
        assert isinstance(env, AirCombatEnv)
        return League(cfg.league, env, policy, derive_seed(cfg.seed, "league"))

    def words_of_report(self, cfg: Any, folder: Path) -> list[str]:
        """Return the words of the best responses of `league.exploit_s`."""
        if not (cfg.league.enabled and cfg.league.exploit_s):
            return []
        here = [f"checkpoint={folder}", f"root={folder}", "name=exploit", f"max_time_s={cfg.league.exploit_s:g}"]
        machine = [f"env.num_envs={cfg.env.num_envs}", f"device={cfg.device}", f"threads={cfg.threads}", "random=1"]
        named = registry.trusting_words({"env": asdict(cfg.env), "model": asdict(cfg.model)})
        return [*here, *machine, *shlex.split(named)]

    def policy_path(self, overrides: Sequence[str]) -> str | None:
        """Return the first red agent if it is a policy."""
        red = (value_of("red", overrides) or "").partition(",")[0]
        return red if red and is_checkpoint(red) else None

    def make_game(self, words: Sequence[str]) -> Game:
        """Return a duel against `opponent=`, or between two people."""
        from slipstream.tasks.aircombat.game import DuelGame, GameOptions

        return DuelGame(read_options(GameOptions, words))
