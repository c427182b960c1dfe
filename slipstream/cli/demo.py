"""slipstream demo: train a policy in a small world on the CPU, fly it over unseen maps, and draw the result.

slipstream demo                  about 4 minutes on two cores
slipstream demo max_time_s=60    any key of `slipstream train`; the defaults of the demo are in preset=demo
"""

from __future__ import annotations

import argparse

import torch

from slipstream import train
from slipstream.config import registry
from slipstream.config.compose import load_train, preset_files
from slipstream.config.help import ConfigError
from slipstream.config.overrides import plain_overrides, value_of
from slipstream.distributed.launch import launch, ranks_to_start
from slipstream.training.metrics_log import read_metrics

RANKS = 2  # on a CPU with two cores, of 512 drones each: 1.4 times the frames per second of one process with two threads


def run(args: argparse.Namespace) -> int:
    """Run the demo; its files are in the run folder."""
    task = preset_files()["demo"][1]
    if value_of("task", plain_overrides(args.words)) not in (None, task):
        raise ConfigError(f"the demo flies task={task}; train your own env with slipstream train task=my_module:MyEnv")
    words = ["preset=demo", *args.words]
    cfg = load_train(words)
    alone = cfg.auto or cfg.actors.count or cfg.gpus is not None or cfg.device != "cpu"
    if not alone and torch.get_num_threads() >= RANKS:
        words.append(f"gpus={RANKS}")
        cfg = load_train(words)
    demo = registry.find_task(cfg.task).make_demo(cfg)
    demo.before()
    ranks = ranks_to_start(cfg)
    if ranks > 1:
        code, folder = launch(words, cfg, ranks)
        if code or folder is None:
            return code or 2
    else:
        folder = train.run(cfg).path
    demo.after(folder, read_metrics(folder), " ".join(["slipstream demo", *args.words]))
    print(f"watch:    slipstream view {folder}\nevaluate: slipstream eval checkpoint={folder}")
    return 0
