"""Show a policy to others: a folder with its card, weights, ONNX file and flights, ready for a hub.

    slipstream card runs/NAME                                          # evaluates the policy, writes runs/NAME/card
    slipstream card runs/NAME eval.map_seeds=101-116 license=mit       # with keys of slipstream eval
    slipstream push runs/NAME OWNER/REPO                               # the folder to the Hugging Face Hub
    slipstream eval checkpoint=hf://OWNER/REPO                         # then, on any machine

  license=      of the weights, as the hub calls it (mit, apache-2.0, ...); default: unknown
  private=      true: push to a repository that only its owner sees
  --force       write the card again

The card (README.md) says how the policy was trained and how often it succeeds, with intervals; policy.safetensors holds
the weights, train.yaml the settings of the run, flight.html a flight, policy.html a page that flies new maps (drones).
`slipstream push` needs huggingface_hub (pip install -e '.[hub]') and its login: hf auth login.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import shutil
import sys
from pathlib import Path
from typing import Any

from slipstream.algorithms.policy_file import NOT_INSTALLED, WEIGHTS
from slipstream.checkpoint.maintenance import write_state
from slipstream.cli import add_force, check_output
from slipstream.cli.export import export_policy
from slipstream.config import registry
from slipstream.config.compose import default_config, flat_settings, to_dict
from slipstream.config.help import ConfigError, show
from slipstream.config.overrides import OF_ONE_RUN, read_yaml, split_keys
from slipstream.storage.errors import printable
from slipstream.storage.files import make_folder, write_file
from slipstream.training import evaluate
from slipstream.training.metrics_log import read_metrics
from slipstream.training.outputs import draw_learning
from slipstream.training.run_folder import RunFolder, config_yaml

REPOSITORY = "OWNER/REPO"  # stands in a card until it is pushed
OF_THE_POLICY = ("task", "env", "model", "algo")  # sections of the config that its file holds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Besides the keys: the run, the repository of `push`, --force."""
    parser.add_argument("path", nargs="?", metavar="RUN", help="the run folder")
    if parser.prog.endswith("push"):
        parser.add_argument("repository", nargs="?", metavar=REPOSITORY)
    add_force(parser)


def run(args: argparse.Namespace) -> int:
    """Write a card, or push one."""
    if not args.path or "=" in args.path:
        raise ConfigError(f"name a run folder: slipstream {args.command} runs/NAME")
    run = RunFolder.open(args.path)
    own, words = split_keys(args.words, ("license", "private"))
    if args.command == "push":
        return _push(run.path / "card", args.repository or "", own.get("private") == "true")
    if (readme := run.path / "card" / "README.md").exists():
        check_output(readme, args.force)
    folder = write_card(run, words, own.get("license", "unknown"))
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(f"card: {folder} ({size:.1f} MB); to share it: slipstream push {args.path} {REPOSITORY}")
    return 0


def write_card(run: RunFolder, words: list[Any], license: str) -> Path:
    """Evaluate the policy of a run with the keys of `slipstream eval`, and write everything about it into RUN/card."""
    folder = run.path / "card"
    _, trained = evaluate.configure([f"checkpoint={run.path}", *words])
    make_folder(folder)
    config = trained.state["config"]
    weights = trained.state["policy"] if "policy" in trained.state else trained.state["algo"]["policy"]
    policy = {"config": {name: config[name] for name in OF_THE_POLICY}, "policy": weights}
    write_state(folder / WEIGHTS, policy, compress=False)
    cfg, trained = evaluate.configure([f"checkpoint={folder / WEIGHTS}", *words])  # the file that is shared
    task = registry.find_task(cfg.task)
    export_policy(trained, cfg.task, cfg.env, "onnx", folder / "policy.onnx")
    try:
        task.check_page(cfg.env)
        export_policy(trained, cfg.task, cfg.env, "html", folder / "policy.html")
    except ConfigError:  # this task or world has no page
        pass
    if task.can_record:
        cfg = dataclasses.replace(cfg, out=str(folder / "flight.html"))
    tables: list[str] = []
    evaluate.run(cfg, trained, log=tables.append)
    print("\n".join(tables))
    if not (run.path / "learning.png").is_file():
        draw_learning(task, run)
    if (run.path / "learning.png").is_file():
        shutil.copyfile(run.path / "learning.png", folder / "learning.png")
    settings = {key: value for key, value in run.config().items() if key not in OF_ONE_RUN}
    write_file(folder / "train.yaml", config_yaml(settings).encode())
    text = "\n".join(tables).replace(f"{folder}/", "").replace(f"{run.path}/", "")
    write_file(folder / "README.md", _card(run, folder, license, " ".join(words), text).encode())
    return folder


def _card(run: RunFolder, folder: Path, license: str, evaluated: str, tables: str) -> str:
    """Return the text of README.md."""
    config, rows = run.config(), read_metrics(run.path)
    machine = read_yaml(run.path / "git.json")
    task, algo = config["task"], config["algo"]["name"]
    default = flat_settings(to_dict(default_config(task, algo)))
    settings = {key: show(value) for key, value in flat_settings(config).items()}
    changed = {key: value for key, value in settings.items() if show(default.get(key)) != value}
    training = {
        "frames": f"{rows[-1]['frames']:,}" if rows else "",
        "time": f"{rows[-1].get('time_s', 0):,.0f} s" if rows else "",
        "machine": f"{machine['device']}, PyTorch {machine['torch']}",
        "Slipstream": f"{machine['slipstream']} {machine['slipstream_commit'] or ''}",
    }
    training |= {f"`{key}`": value for key, value in changed.items() if key.split(".")[0] not in (*OF_ONE_RUN, "wandb")}
    names = sorted(path.name for path in folder.iterdir() if path.name != "README.md")
    shown = {"flight.html": "a flight in 3-D", "policy.html": "a page in which the policy flies new maps"}
    links = [f"[{text}]({name})" for name, text in shown.items() if name in names]
    pictures = [f"![{name}]({name})" for name in names if name.endswith(".png")]
    command = f"slipstream eval checkpoint=hf://{REPOSITORY} {evaluated}".strip()
    hashes = {name: f"`{hashlib.sha256((folder / name).read_bytes()).hexdigest()}`" for name in names}
    return printable(f"""---
license: {license}
library_name: slipstream
tags: [reinforcement-learning, {algo}, {task.partition(":")[0]}]
---

# {run.path.name}

A policy for the task `{task}`, trained by {algo.upper()} with Slipstream. Files open from disk: {", ".join(links) or "none"}.

## Results

```
{command}
{tables}
```

{" ".join(pictures)}

## Training

`slipstream train config=train.yaml` repeats it. Settings are those that differ from the defaults.

{_table(training)}

## Files and their SHA-256

{_table(hashes)}
""")


def _table(rows: dict[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items() if value)])


def _push(folder: Path, repository: str, private: bool) -> int:
    """Upload a card to the hub, which knows the user by `hf auth login` or the environment."""
    if not (folder / "README.md").is_file():
        raise ConfigError(f"{folder} is not there: write it with slipstream card {folder.parent}")
    if repository.count("/") != 1:
        raise ConfigError(f"name a repository of the hub: slipstream push {folder.parent} {REPOSITORY}")
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ImportError(f"slipstream push {NOT_INSTALLED}") from error
    text = (folder / "README.md").read_text(encoding="utf-8").replace(REPOSITORY, repository)
    write_file(folder / "README.md", text.encode())
    api = HfApi()
    address = api.create_repo(repository, private=private, exist_ok=True)
    api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Policy written by slipstream card")
    print(f"pushed: {address}; to fly it: slipstream eval checkpoint=hf://{repository}", file=sys.stderr)
    return 0
