"""slipstream bench env: measure how fast a task's env steps, beside its plain eager-PyTorch form in the same process.

slipstream bench env                       1,024 environments beside the plain form, and growth from few to many
slipstream bench env env.num_obstacles=700 any key of env.* but num_envs and backend
slipstream bench env device=cuda           on a GPU
slipstream bench env out=table.md          write the table as Markdown too
slipstream bench env task=NAME             another task's env
"""

from __future__ import annotations

from pathlib import Path

from slipstream.config import registry
from slipstream.config.compose import load_train
from slipstream.config.overrides import split_keys
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.ui.tables import progress_bar


def run(argv: list[str]) -> int:
    """`slipstream bench env [key=value ...]`."""
    own, words = split_keys(argv, ("out",))
    cfg = load_train(words)
    device = resolve_device(cfg.device)
    set_threads(cfg.threads)
    with progress_bar("measuring") as progress:
        table = registry.find_task(cfg.task).bench_env(cfg.env, device, progress)
    print(table.render())
    if "out" in own:
        Path(own["out"]).write_text(table.markdown())
    return 0
