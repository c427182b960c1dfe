"""The training loop. Read `loop` first: it is the product on one screen.

slipstream train env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80
"""

from __future__ import annotations

import runpy
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstream.config.compose import to_dict
from slipstream.config.schema import TrainConfig
from slipstream.training import resume
from slipstream.training.background_compile import KernelCompiler
from slipstream.training.distributed import join_ranks
from slipstream.training.outputs import RunOutputs, draw_learning
from slipstream.training.run_folder import RunFolder, free_name
from slipstream.training.trainer import Trainer
from slipstream.training.tuning import choose_sizes


def run(cfg: TrainConfig) -> RunFolder:
    """Train until `total_frames`, `max_time_s` or a signal; return the run folder, which holds all results."""
    with join_ranks(cfg) as ranks, ExitStack() as stack:
        folder: Any = None
        state, fresh_envs = None, cfg.resume_envs == "fresh"
        if cfg.resume:

            def open_run() -> tuple[str, dict[str, Any] | None]:
                auto = cfg.resume == "auto"
                folder = RunFolder.at(cfg.root, str(cfg.name)) if auto else RunFolder.open(str(cfg.resume))
                # First: another training would make what is read out of date.
                stack.enter_context(resume.sole_writer(folder))
                if auto and not folder.has_checkpoints():
                    folder.check_unfinished()
                    if not folder.is_complete():
                        stack.enter_context(folder.kept_if_used())
                    return str(folder.path), None
                return str(folder.path), resume.load_resume_state(cfg, folder, ranks.size)

            path, state = ranks.from_root(open_run)
            folder = RunFolder(Path(path))
        if state is not None:
            cfg = resume.continued_config(cfg, state["config"])
            if resume.is_finished(cfg, folder, state, report=ranks.is_root):
                return folder
        name = cfg.name
        if name is not None and folder is None:  # before minutes of work
            name = ranks.from_root(lambda: free_name(cfg.root, str(cfg.name)))
        cfg = choose_sizes(cfg) if cfg.auto and state is None else cfg
        trainer = stack.enter_context(Trainer(replace(cfg, resume=None, resume_envs="saved"), ranks=ranks))
        if folder is None:  # a config that cannot be built leaves no run folder behind
            path = ranks.from_root(lambda: str(RunFolder.create(cfg.root, name, to_dict(trainer.cfg)).path))
            folder = RunFolder(Path(path))
            if ranks.is_root:
                stack.enter_context(resume.sole_writer(folder))
                stack.enter_context(folder.kept_if_used())
        elif state is None and ranks.is_root:
            folder.restart(to_dict(trainer.cfg))
        ranks.set_run(folder.path, f"Continue from its last checkpoint: {resume.resume_command(cfg, folder)}")
        return loop(trainer, folder, 0 if state is None else resume.restore(trainer, state, folder, fresh_envs))


def loop(trainer: Trainer, folder: RunFolder, start: int) -> RunFolder:
    """Collect and learn from iteration `start` on; log, evaluate and save into `folder`."""
    cfg, ranks, done = trainer.cfg, trainer.ranks, True
    with RunOutputs(trainer, folder, start) as out, KernelCompiler(trainer, out.print) as kernels:
        out.start_clock()
        time_share, *_ = ranks.max(*out.shares())
        for it in range(start, trainer.last_iteration):
            result = trainer.step(trainer.progress(it, time_share), out.rollout_writer(it))
            time_share, save_share, stop = ranks.max(*out.shares())
            done = it + 1 == trainer.iterations or time_share >= 1
            last = done or bool(stop)
            evaluates = is_due(cfg.eval_interval, it, done)  # a run that is stopped does not wait for a last evaluation
            saves = is_due(cfg.save_interval, it, last) or save_share >= 1
            read = out.fetch_metrics(it, result, wait=evaluates or saves)
            out.evaluate(it, evaluates, wait=saves)  # a checkpoint waits: it holds the best score
            metrics = out.log_metrics(it, read)
            if saves:
                out.save_checkpoint(it, metrics)
            out.record_flight(it)
            out.monitor.tick(frames=trainer.frames_per_batch)
            if last:
                out.ended = "finished" if done else "interrupted"
                break
            kernels.poll()
    if ranks.is_root:
        draw_learning(trainer.task, folder)
    if ranks.is_root and not done:
        print(f"stopped; continue with: {resume.resume_command(cfg, folder)}")
    return folder


def is_due(interval: int, it: int, last: bool) -> bool:
    """Return whether something is due: every `interval` iterations, and at the end; never for 0."""
    return interval > 0 and ((it + 1) % interval == 0 or last)


if __name__ == "__main__":  # python -m slipstream.train key=value is python -m slipstream train key=value
    sys.argv[1:1] = ["train"]
    runpy.run_module("slipstream", run_name="__main__")
