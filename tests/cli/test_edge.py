"""Whatever a key or a file causes is one sentence and exit code 2; text from files controls no terminal and no figure."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.small_run import TINY, rewritten

from slipstream.checkpoint import load_checkpoint
from slipstream.cli import main

ROOT = Path(__file__).parents[2]
ESCAPE = "\x1b]0;owned\x07\x1b[31m[bold red]x[/bold red]"


def sentence(capsys, argv):
    """Run a command that must fail: return its one line on stderr."""
    assert main(argv) == 2
    *progress, error = capsys.readouterr().err.splitlines()
    assert all(line.startswith("building the env: ") for line in progress), progress  # on a busy machine
    assert "Traceback" not in error and "\x1b" not in error, error
    return error


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("threads=100000", "threads must be in [0, "),
        ("threads=-1", "threads must be"),
        ("env.num_obstacles=100000", "env.num_obstacles must be in [0, 5000], not 100000"),
        ("env_dyn.num_obstacles=100000", "env_dyn.num_obstacles must be in [0, 2000], not 100000"),
        ("env.num_envs=1e300", "env.num_envs must be a whole number below 2^63, not '1e300'"),
        ("env.num_envs=[[1]]", "env.num_envs"),
        ("env.num_envs=9223372036854775807", "num_envs must be in [1, 16777216]"),
        ("env.map_half_m=inf", "env.map_half_m must be a finite number"),
        ("eval.map_seeds=[[1],[2]]", "eval.map_seeds"),
        ("eval.map_seeds=" + "[" * 3000, "eval.map_seeds"),
        ("env.num_envs=" + "9" * 5000, "env.num_envs"),
        ("model.trunk=[nan]", "model.trunk"),
        ("name=a/b", "one folder name"),
    ],
)
def test_a_value_that_cannot_be_is_one_sentence(tmp_path, monkeypatch, capsys, word, named):
    monkeypatch.chdir(tmp_path)
    assert named in sentence(capsys, ["train", *TINY, word])


@pytest.mark.parametrize(
    "text",
    ["a: &a [x, x]\nb: [*a, *a]\n", "a: &a {b: *a}\n", "[" * 3000, "seed: " + "9" * 5000, "? [1, 2]\n: 3\n", "a: !!python/object:os.system {}\n"],
)  # fmt: skip
def test_a_hostile_yaml_file_is_one_sentence_without_its_content(tmp_path, capsys, text):
    (tmp_path / "SECRET.yaml").write_text(text + "# token SECRET-CONTENT\n")
    error = sentence(capsys, ["config", f"config={tmp_path / 'SECRET.yaml'}"])
    assert "SECRET-CONTENT" not in error and "999" not in error and "os.system" not in error


def run_as_program(*argv, stdout=subprocess.PIPE, **environment):
    command = [sys.executable, "-m", "slipstream", *argv]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, stdout=stdout, stderr=subprocess.PIPE, timeout=120
    )


def test_an_ascii_stdout_and_a_full_stdout_print_no_traceback():
    done = run_as_program("config", "name=é✓", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and b"name: ??" in done.stdout and done.stderr == b""
    with open("/dev/full", "w") as full:
        done = run_as_program("--help", stdout=full)
    assert done.returncode == 2 and b"Traceback" not in done.stderr and b"No space left" in done.stderr


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [..., None, "x", [1], float("nan")], ids=repr)
@pytest.mark.parametrize("path", ["config", "config.task", "config.algo", "config.model", "config.algo.name"])
def test_a_wrong_config_in_a_checkpoint_is_one_sentence(tmp_path, capsys, run, path, value):
    copy = rewritten(run, tmp_path, {path: value})
    for command in (["eval", f"checkpoint={copy}"], ["train", f"resume={copy}"]):
        assert "copy" in sentence(capsys, command) or path in ("config.task", "config.algo.name")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((path, ...) for path in ("algo", "collector", "rng", "best", "trained_s", "iteration", "rng.cpu", "algo.policy")),
        *((path, "x") for path in ("algo", "collector", "rng", "best", "trained_s", "iteration", "collector.env")),
        *((path, torch.zeros(3)) for path in ("rng.cpu", "collector.env", "algo.policy", "collector.frames")),
        *(("iteration", value) for value in (-1, 1.5, 2**70, True)),
        *(("trained_s", value) for value in (float("nan"), -1.0)),
        ("collector.env._pending", torch.zeros(8, 8)),
        ("config.env.num_envs", [[1]]),
        ("config.model.trunk", {"a": 1}),
    ],
)  # fmt: skip
def test_a_wrong_state_in_a_checkpoint_is_one_sentence(tmp_path, capsys, run, path, value):
    copy = rewritten(run, tmp_path, {path: value})
    assert "copy" in sentence(capsys, ["train", f"resume={copy}", "total_frames=128"])


@pytest.mark.parametrize("row", ["5", "null", "[]", '"x"', '{"iteration": "x"}', '{"frames": 1}', "{}", "[" * 5000])
def test_metrics_rows_that_are_no_rows_are_one_sentence(tmp_path, capsys, run, row):
    copy = rewritten(run, tmp_path, {"best": 0.0})
    (copy / "metrics.jsonl").write_text(f"{row}\n{json.dumps({'iteration': 9, 'frames': 9, 'time_s': 1})}\n")
    assert "metrics.jsonl" in sentence(capsys, ["train", f"resume={copy}", "total_frames=128"])


# -- text from files ---------------------------------------------------------------------------------------------------


def test_names_in_checkpoints_control_no_terminal(tmp_path, capsys, monkeypatch, run):
    from slipstream.checkpoint import AsyncCheckpointSaver

    monkeypatch.setenv("FORCE_COLOR", "1")  # rich colors its output, as in a terminal
    for number in (1, 2):
        with AsyncCheckpointSaver() as saver:
            state = {ESCAPE: torch.full((2,), float(number)), "b": {ESCAPE: [torch.zeros(1)]}}
            saver.save_async(state, tmp_path / f"c_{number}.pt", metrics={ESCAPE: 1.0})
    (tmp_path / f"{ESCAPE.replace('/', '')}_1.pt.slip").write_bytes(b"no checkpoint")
    main(["ckpt", "info", str(tmp_path)])
    main(["ckpt", "info", "--tensors", str(tmp_path / "c_1.pt")])
    main(["ckpt", "verify", str(tmp_path)])
    main(["ckpt", "export", str(tmp_path / "c_1.pt"), "--to", "safetensors"])
    out, err = capsys.readouterr()
    assert "\x1b]" not in out + err and "\x07" not in out + err
    assert "\x1b[31m[bold" not in out and "[bold red]x" in out.replace("\n", "")


def test_a_task_name_from_a_checkpoint_controls_no_terminal(tmp_path, capsys, run):
    copy = rewritten(run, tmp_path, {"config.task": ESCAPE})
    assert r"\x1b]0;owned" in sentence(capsys, ["eval", f"checkpoint={copy}"])


# -- which file it is --------------------------------------------------------------------------------------------------


def test_eval_and_info_print_the_hash_of_the_policy(capsys, run):
    file = next((run / "checkpoints").glob("ckpt_*"))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    main(["ckpt", "info", str(file)])
    assert f"sha256 {digest}  {file.name}\n" in capsys.readouterr().out
    words = ["eval.num_drones=2", "eval.map_seeds=[1]", "eval.max_steps=2", "eval.picture=false", "device=cpu"]
    assert main(["eval", f"checkpoint={file}", *words]) == 0
    assert f"sha256 {digest}\n" in capsys.readouterr().out


def test_shipped_weights_are_the_listed_ones(tmp_path):
    from slipstream.algorithms.policy_file import load_policy
    from slipstream.checkpoint.errors import CorruptCheckpointError
    from slipstream.checkpoint.maintenance import write_state

    folders = sorted((ROOT / "slipstream" / "tasks").glob("*/weights"))
    assert len(folders) == 2
    files = [file for folder in folders for file in sorted(folder.glob("*.pt.slip"))]
    for folder in folders:
        mine = [file for file in files if file.parent == folder]
        sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in mine)
        assert (folder / "SHA256SUMS").read_text() == sums
    for weights in files:
        load_policy(weights)
        state = load_checkpoint(weights)
        write_state(tmp_path / weights.name, state | {"note": 1}, compress=False)
        load_policy(tmp_path / weights.name)
        (tmp_path / "SHA256SUMS").write_text((weights.parent / "SHA256SUMS").read_text())
        with pytest.raises(CorruptCheckpointError, match="is not the file that .*SHA256SUMS lists"):
            load_policy(tmp_path / weights.name)
        (tmp_path / "SHA256SUMS").unlink()


def test_shipped_policies_are_found_by_name(tmp_path, monkeypatch):
    from slipstream.algorithms.policy_file import load_policy

    monkeypatch.chdir(tmp_path)
    assert load_policy("navigation_lidar").path.parent.name == "weights"
    with pytest.raises(FileNotFoundError, match="that ship with the package: aircombat, navigation, navigation_lidar"):
        load_policy("navigaton")
    with pytest.raises(FileNotFoundError) as caught:
        load_policy("runs/navigation")  # a path, not a name
    assert "ship" not in str(caught.value)
    (tmp_path / "navigation").mkdir()  # no run
    assert load_policy("navigation").task == "navigation"
    (tmp_path / "navigation").rmdir()
    torch.save(load_checkpoint(load_policy("aircombat").path), tmp_path / "navigation")
    assert load_policy("navigation").task == "aircombat"  # a file of this name comes first
