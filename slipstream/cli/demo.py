"""slipstream demo: train a policy in a small world on the CPU, fly it over unseen maps, and draw the result.

slipstream demo                  about 4 minutes on two cores
slipstream demo max_time_s=60    any key of `slipstream train`; the defaults of the demo are in preset=demo
"""

from __future__ import annotations

import argparse

from slipstream import train
from slipstream.config import registry
from slipstream.config.compose import load_train, preset_files
from slipstream.config.help import ConfigError
from slipstream.config.overrides import plain_overrides, value_of
from slipstream.training.metrics_log import read_metrics


def run(args: argparse.Namespace) -> int:
    """Run the demo; its files are in the run folder."""
    task = preset_files()["demo"][1]
    if value_of("task", plain_overrides(args.words)) not in (None, task):
        raise ConfigError(f"the demo flies task={task}; train your own env with slipstream train task=my_module:MyEnv")
    cfg = load_train(["preset=demo", *args.words])
    demo = registry.find_task(cfg.task).make_demo(cfg)
    demo.before()
    folder = train.run(cfg)
    demo.after(folder.path, read_metrics(folder.path), " ".join(["slipstream demo", *args.words]))
    print(f"watch:    slipstream view {folder.path}\nevaluate: slipstream eval checkpoint={folder.path}")
    return 0
