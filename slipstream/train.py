"""The training loop. Read `loop` first: it is the product on one screen.

slipstream train env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80
"""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from typing import Any

from slipstream.config.compose import to_dict
from slipstream.config.schema import TrainConfig
from slipstream.training.outputs import RunOutputs, draw_learning, wandb_settings
from slipstream.training.resume import load_resume_state, restore, resume_command, sole_writer
from slipstream.training.run_folder import RunFolder
from slipstream.training.trainer import Trainer
from slipstream.training.tuning import choose_sizes


def run(cfg: TrainConfig) -> RunFolder:
    """Train until `total_frames`, `max_time_s` or a signal; return the run folder, which holds all results."""
    if cfg.resume:
        folder = RunFolder.open(cfg.resume)
        with sole_writer(folder):  # before anything is read: another training would make it out of date at once
            state = load_resume_state(cfg, folder)
            with Trainer(replace(cfg, resume=None)) as trainer:
                return loop(trainer, folder, wandb_settings(cfg), start=restore(trainer, state, folder))
    cfg = choose_sizes(cfg) if cfg.auto else cfg
    wandb = wandb_settings(cfg)
    with Trainer(cfg) as trainer:  # a config that cannot be built leaves no run folder behind
        folder = RunFolder.create(cfg.root, cfg.name, to_dict(cfg))
        with folder.kept_if_used(), sole_writer(folder):
            return loop(trainer, folder, wandb, start=0)


def loop(trainer: Trainer, folder: RunFolder, wandb: dict[str, Any], start: int) -> RunFolder:
    """Collect and learn from iteration `start` on; log, evaluate and save into `folder`."""
    cfg, done = trainer.cfg, True
    with RunOutputs(trainer, folder, wandb, start) as out:
        trainer.capture(out.view.print)
        clock = out.start_clocks()
        if start >= trainer.last_iteration:
            print(
                f"nothing left to do: this run has {trainer.collector.frames:,} frames; give a larger total_frames or max_time_s"
            )
        for it in range(start, trainer.last_iteration):
            result = trainer.step(trainer.progress(it, clock), out.rollout_writer(it))
            done = it + 1 == trainer.iterations or clock.is_up()
            last = done or out.saver.stop_requested
            evaluates = is_due(cfg.eval_interval, it, done)  # a run that is stopped does not wait for a last evaluation
            saves = is_due(cfg.save_interval, it, last) or out.save_clock.is_up()
            read = out.read_metrics(it, result, wait=evaluates or saves)
            evaluation: dict[str, float] = {}
            if evaluates:
                with out.monitor.timer("evaluation"), clock.paused():
                    evaluation = trainer.evaluate()
                for tag in trainer.checkpoint_tags(evaluation):
                    out.save_policy(tag)
            metrics = out.log_metrics(it, read, evaluation)
            if saves:
                out.save_checkpoint(it, metrics)
            out.record_flight(it)
            out.monitor.tick(frames=trainer.frames_per_batch)
            if last:
                break
    draw_learning(trainer.task, folder)
    if not done:
        print(f"stopped; continue with: {resume_command(cfg, folder)}")
    return folder


def is_due(interval: int, it: int, last: bool) -> bool:
    """Return whether something is due: every `interval` iterations, and at the end; never for 0."""
    return interval > 0 and ((it + 1) % interval == 0 or last)


if __name__ == "__main__":  # python -m slipstream.train key=value is python -m slipstream train key=value
    sys.argv[1:1] = ["train"]
    runpy.run_module("slipstream", run_name="__main__")
