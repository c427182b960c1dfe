"""The settings of a training that follow its progress (`schedules`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from slipstream.config.compose import with_values
from slipstream.config.help import ConfigError
from slipstream.config.schedules import Schedule
from slipstream.config.values import settable

if TYPE_CHECKING:
    from slipstream.training.trainer import Trainer

BATCH = "algo.rollout_steps"  # follows the frames, so that the number of iterations is known


class ScheduledNumbers:
    """Sets the scheduled settings of env and learner before each iteration. They depend on the progress and on the best
    evaluation, which checkpoints hold: a resumed run continues with the same ones."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, cfg = trainer, trainer.cfg
        self._schedules = {key: self._read(key, text) for key, text in cfg.schedules.items()}
        self._present: dict[str, Any] = {}
        self._planned: dict[int, int] = {}
        if cfg.schedules:
            self._check()
        first = {key.partition(".")[2]: s.stages[0] for key, s in self._schedules.items() if key.startswith("env.")}
        if first:
            trainer.env.set_numbers(first)

    def _read(self, key: str, text: str) -> Schedule:
        """Return the schedule of a key whose every value the config accepts."""
        trainer, (section, _, name) = self._trainer, key.partition(".")
        owners: dict[str, Any] = {"env": trainer.env, "algo": trainer.learner}
        if name not in getattr(owners.get(section), "scheduled_settings", ()):
            can = [f"{s}.{n}" for s, owner in owners.items() for n in owner.scheduled_settings]
            raise ConfigError(
                f"{key} cannot follow the training: of this env and algo {', '.join(can) or 'nothing'} can"
            )
        try:
            schedule = Schedule.parse(text, settable(trainer.cfg)[key][1])
            for value in schedule.stages:
                with_values(trainer.cfg, {key: value})
        except ValueError as error:
            raise ConfigError(f"{key}={text}: {error}") from None
        return schedule

    def _check(self) -> None:
        """Raise ConfigError for what schedules do not work with."""
        trainer, cfg = self._trainer, self._trainer.cfg
        others = {
            f"collect.pipeline={cfg.collect.pipeline}, which collects ahead": cfg.collect.pipeline != "off",
            "actors, which have envs of their own": bool(cfg.actors.count),
            "compile=on, which compiles numbers into kernels": cfg.compile == "on",
        }
        if other := next((other for other, is_given in others.items() if is_given), ""):
            raise ConfigError(f"schedules do not work with {other}: leave one of the two out")
        for key, schedule in self._schedules.items():
            if schedule.by == "success" and (trainer.ranks.size > 1 or not cfg.eval_interval or key == BATCH):
                raise ConfigError(f"{key}: by=success needs one process and eval_interval, and not {BATCH}")
        learner, target = trainer.learner, trainer.learner.config
        names = [key.partition(".")[2] for key in self._schedules if key.startswith("algo.")]
        for values in product(*(self._schedules[f"algo.{name}"].stages for name in names)):
            learner.config = replace(target, **dict(zip(names, values, strict=True)))
            learner.check_batch(trainer.env.num_envs * learner.config.rollout_steps)
        learner.config = target

    def follow(self, progress: float) -> dict[str, Tensor]:
        """Set the numbers for an iteration after this share of the run; return them as metrics, lists by index."""
        trainer = self._trainer
        shares = {BATCH: trainer.frames / trainer.cfg.total_frames}
        now = {key: s.at(shares.get(key, progress), trainer.best) for key, s in self._schedules.items()}
        changed = {key: value for key, value in now.items() if self._present.get(key) != value}
        if changed:
            self._set(changed)
            self._present = now
        numbers: dict[str, Any] = {}
        for key, value in now.items():
            parts = enumerate(value) if isinstance(value, list | tuple) else [("", value)]
            numbers |= {f"schedule/{key}/{k}".rstrip("/"): x for k, x in parts}
        return {name: torch.tensor(float(x), device=trainer.env.device) for name, x in numbers.items()}

    def _set(self, changed: dict[str, Any]) -> None:
        trainer = self._trainer
        env, algo = (
            {key.partition(".")[2]: value for key, value in changed.items() if key.startswith(section)}
            for section in ("env.", "algo.")
        )
        if env:
            trainer.env.set_numbers(env)
        if algo:
            trainer.learner.config = replace(trainer.learner.config, **algo)
        if BATCH in changed:
            trainer.resize_batch(changed[BATCH])
        trainer.capture_again()

    def iterations(self, iterations: int, frames: int) -> int | None:
        """Return the number of iterations in all, of which some have been, with batches that change; else None."""
        if BATCH not in self._schedules:
            return None
        if frames not in self._planned:
            total, schedule, planned = self._trainer.cfg.total_frames, self._schedules[BATCH], 0
            each, now = self._trainer.env.num_envs * self._trainer.ranks.size, frames
            while now < total:
                now, planned = now + schedule.at(now / total, 0.0) * each, planned + 1
            self._planned[frames] = planned
        return max(1, iterations + self._planned[frames])
