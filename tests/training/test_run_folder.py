"""Contracts of RunFolder: unused names, what it holds, what `open` accepts, and files that are whole or absent."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from slipstream.cli import main
from slipstream.storage.errors import UnsafeFolderError
from slipstream.storage.files import atomic_file, write_file
from slipstream.training.run_folder import RunFolder, git_state, provenance


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set when the tests run inside a hook
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "policy.py").write_text("gain = 1\n")
    git(folder, "add", "policy.py")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_config_comes_back_as_it_was_given_in_plain_types(tmp_path):
    config = {"task": "navigation", "env": {"size": (1, 2)}, "lr": 5e-06, "out": "a/b", "name": None, "on": "off"}
    run = RunFolder.create(tmp_path, "a", config)
    expected = config | {"env": {"size": [1, 2]}}
    assert run.config() == expected
    assert list(run.config()) == list(config)


def test_a_name_in_use_gets_the_next_number(tmp_path):
    names = [RunFolder.create(tmp_path, "fly", {}).path.name for _ in range(3)]
    assert names == ["fly", "fly-2", "fly-3"]


def test_the_default_name_ends_with_the_task(tmp_path):
    assert RunFolder.create(tmp_path, None, {"task": "navigation"}).path.name.endswith("_navigation")
    assert RunFolder.create(tmp_path, None, {"task": "my_package.my_module:MyEnv"}).path.name.endswith("_MyEnv")
    assert RunFolder.create(tmp_path, None, {}).path.name.endswith("_run")


@pytest.mark.parametrize("name", ["", "a/b", "..", "/abs", "a\nb", "a\x1b[31m"])
def test_a_name_that_is_not_one_folder_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="one folder name"):
        RunFolder.create(tmp_path / "runs", name, {})


@pytest.mark.parametrize(
    "words", [["train"], ["train", "resume=auto"], ["train", "seed=0,1"], ["sweep", "algo.epochs=int(1,2)"]]
)
def test_a_line_break_in_a_name_is_one_sentence_and_no_folder(tmp_path, words, capsys):
    assert main([*words, "task=gym", "env.id=CartPole-v1", "device=cpu", f"root={tmp_path}", "name=a\nb"]) == 2
    error = capsys.readouterr().err
    assert r"name='a\nb' is not one folder name" in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_config_that_cannot_be_written_leaves_no_folder(tmp_path):
    with pytest.raises(TypeError, match="config values"):
        RunFolder.create(tmp_path / "runs", "a", {"policy": object()})
    assert not (tmp_path / "runs").exists()


def test_open_takes_the_folder_or_anything_in_it(tmp_path):
    run = RunFolder.create(tmp_path, "a", {})
    run.checkpoint_path(7).write_bytes(b"")
    for path in (run.path, run.path / "config.yaml", run.checkpoints, run.checkpoint_path(7)):
        assert RunFolder.open(path) == run


def test_open_says_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist"):
        RunFolder.open(tmp_path / "nowhere")
    (tmp_path / "x" / "y").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"config\.yaml is missing"):
        RunFolder.open(tmp_path / "x" / "y")


def test_git_state_is_the_commit_and_whether_files_differ(repository):
    clean = git_state(repository)
    assert len(clean.pop("commit")) == 40 and clean == {"dirty": False}
    os.utime(repository / "policy.py", (1, 1))
    assert git_state(repository)["dirty"] is False
    (repository / "policy.py").write_text("password = 2\n")
    dirty = git_state(repository)
    assert dirty["dirty"] is True and "password" not in json.dumps(dirty)
    git(repository, "worktree", "add", "-q", "../linked")
    assert git_state(repository.parent / "linked") == dirty | {"dirty": False}


def test_the_settings_of_a_repository_run_no_program(repository, tmp_path):
    ran = tmp_path / "ran"
    bad = f"touch {ran}; cat"
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        path = repository / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{bad}")
        path.chmod(0o755)
    (repository / ".git" / "info" / "attributes").write_text("* filter=bad diff=bad merge=bad\n")
    (repository / ".gitattributes").write_text("* filter=bad diff=bad\n")
    names = ("filter.bad.clean", "filter.bad.smudge", "filter.bad.process", "diff.bad.textconv", "diff.bad.command")
    more = ("core.pager", "pager.diff", "diff.external", "alias.diff", "alias.rev-parse", "core.sshCommand")
    inner = repository / "inner"
    subprocess.run(["git", "clone", "-q", repository, inner], check=True)
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    git(repository, "commit", "-q", "-m", "with a repository inside")
    for folder in (repository, inner):
        for name in (*names, *more, "core.fsmonitor", "core.editor", "credential.helper", "core.askPass"):
            git(folder, "config", name, f"!{bad}" if name.startswith("alias") else f"sh -c '{bad}'")
        git(folder, "config", "core.hooksPath", str(repository / ".git" / "hooks"))
    ran.unlink(missing_ok=True)
    for folder in (repository, inner):
        (folder / "policy.py").write_text("gain = 3\n")
        assert git_state(folder)["dirty"] is True
    assert not ran.exists()


def test_a_run_keeps_the_state_of_the_repository(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(repository)
    run = RunFolder.create(tmp_path / "runs", "a", {})
    saved = json.loads((run.path / "git.json").read_text())
    assert saved["dirty"] is False
    assert {"commit", "dirty", "python", "torch", "slipstream", "device"} <= saved.keys()


def test_a_source_folder_that_is_not_installed_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.metadata.distributions", lambda **given: [])
    assert provenance(tmp_path)["slipstream"] is None


def test_a_folder_without_git_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) == {"commit": None, "dirty": None}


@pytest.mark.parametrize("used", ["", "metrics.jsonl", "checkpoints/ckpt_000001.pt.slip", "best.pt"])
def test_a_run_that_fails_at_once_leaves_no_folder(tmp_path, used):
    run = RunFolder.create(tmp_path, "a", {})
    (run.path / "metrics.jsonl").touch()
    if used:
        (run.path / used).write_text("something")
    with pytest.raises(RuntimeError, match="out of memory"), run.kept_if_used():
        raise RuntimeError("out of memory")
    assert run.path.exists() == bool(used)


@pytest.mark.parametrize("name", [".writer.lock", "metrics.jsonl", "eval.png", "checkpoints"])
def test_a_run_with_a_link_that_leads_out_is_refused_by_name(tmp_path, name):
    run = RunFolder.create(tmp_path, "a", {})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "precious").write_text("precious")
    if name == "checkpoints":
        run.checkpoints.rmdir()
    (run.path / name).symlink_to(tmp_path / ("elsewhere" if name == "checkpoints" else "precious"))
    for path in (run.path, run.path / "config.yaml"):
        with pytest.raises(UnsafeFolderError, match=name):
            RunFolder.open(path)
    assert (tmp_path / "precious").read_text() == "precious"


def test_what_is_no_file_is_never_written_over(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for name, why in (
        ("pipe", "is a device, a pipe"),
        ("folder", "is a folder"),
        ("link", "a pipe"),
        ("no/file", "no folder"),
    ):
        with pytest.raises(OSError, match=why):
            write_file(tmp_path / name, b"new")
        with pytest.raises(OSError, match=why), atomic_file(tmp_path / name):
            pass
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "folder").is_dir()
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "folder", "link"}


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("there/file")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there" / "file").read_bytes() == b"new"
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["file"]
