"""slipstream bench env: how fast a task's env steps, beside its plain eager-PyTorch form in the same process.

slipstream bench env                       1,024 environments beside the plain form, and growth from few to many
slipstream bench env env.num_obstacles=700 any key of env.* but num_envs and backend
slipstream bench env device=cuda           on a GPU
slipstream bench env out=table.md          writes the table as Markdown too
slipstream bench env task=NAME             another task's env
"""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from slipstream.config import registry
from slipstream.config.compose import load_train
from slipstream.config.overrides import split_keys
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.tasks.tables import progress_bar, render


def run(argv: list[str]) -> int:
    """`slipstream bench env [key=value ...]`."""
    own, words = split_keys(argv, ("out",))
    cfg = load_train(words)
    device = resolve_device(cfg.device)
    set_threads(cfg.threads)
    with progress_bar("measuring") as progress:
        found = registry.find_task(cfg.task).bench_env(cfg.env, device, progress)
    table = Table(title=found.title, title_justify="left")
    for name in found.header:
        table.add_column(name, justify="right")
    for row in found.rows:
        table.add_row(*row)
    print(render(table))
    if "out" in own:
        lines = ["| " + " | ".join(cells) + " |" for cells in (found.header, *found.rows)]
        lines.insert(1, "|" + "---|" * len(found.header))
        Path(own["out"]).write_text("\n".join(lines) + "\n")
    return 0
