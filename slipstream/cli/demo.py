"""slipstream demo: train a policy in a small world on the CPU, fly it over unseen maps, and draw the result.

slipstream demo                  about 4 minutes on two cores
slipstream demo max_time_s=60    any key of `slipstream train`; the defaults of the demo are in preset=demo
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace

import torch

from slipstream import train
from slipstream.config import registry
from slipstream.config.compose import load_train, preset_files
from slipstream.config.help import ConfigError
from slipstream.config.overrides import plain_overrides, value_of
from slipstream.config.schema import TrainConfig
from slipstream.distributed.launch import launch, ranks_to_start
from slipstream.training.metrics_log import read_metrics
from slipstream.training.run_folder import STOPPED_BY_KEY

RANKS = 2  # on a CPU: with this small network two processes learn from more frames than two threads (docs/scale.md)


def run(args: argparse.Namespace) -> int:
    """Run the demo; its files are in the run folder."""
    task = preset_files()["demo"][1]
    if value_of("task", plain_overrides(args.words)) not in (None, task):
        raise ConfigError(f"the demo flies task={task}; train your own env with slipstream train task=my_module:MyEnv")
    words = ["preset=demo", *args.words]
    cfg = load_train(words)
    ranks = RANKS if _uses_processes(cfg) else ranks_to_start(cfg)
    demo = registry.find_task(cfg.task).make_demo(replace(cfg, gpus=ranks))
    demo.before()
    if ranks > 1:
        code, folder = launch(words, cfg, ranks)
        if code not in (0, STOPPED_BY_KEY):
            return code
        if folder is None or not (folder / "metrics.jsonl").exists():
            raise KeyboardInterrupt  # stopped before the first iteration
    else:
        folder = train.run(cfg).path
    demo.after(folder, read_metrics(folder))
    print(f"watch:    slipstream view {shlex.quote(str(folder))}")
    print(f"evaluate: slipstream eval {shlex.quote(f'checkpoint={folder}')}")
    return 0


def _uses_processes(cfg: TrainConfig) -> bool:
    """Return whether the training runs in several processes: on a CPU with several cores, if no setting needs one
    process or names a number."""
    decided = cfg.device != "cpu" or cfg.gpus or cfg.threads or cfg.resume or cfg.actors.count or cfg.auto
    can_start = torch.get_num_threads() >= RANKS and sys.platform == "linux"  # others: torch's launcher fails
    return can_start and not decided
