"""Folders: created durably; links that lead out of one are never followed, and it is refused with their names."""

import os

import pytest
import torch

from slipstream import AsyncCheckpointSaver, RolloutStorage
from slipstream.storage.errors import UnsafeFolderError
from slipstream.storage.files import (
    LOCK_NAME,
    FileSystem,
    WriterLock,
    atomic_file,
    open_in_place,
    point_link,
    prepare_folder,
    refuse_outside_links,
    stale_files,
    temporary_name,
)


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["precious"]
    assert (folder / "precious").read_text() == "precious"


def test_links_inside_a_folder_are_allowed(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "c_1.pt").write_text("1")
    point_link(tmp_path / "latest.pt", tmp_path / "c_1.pt")
    (tmp_path / "checkpoints" / "best.pt").symlink_to("../c_1.pt")
    (tmp_path / "dangling").symlink_to("c_0.pt")
    (tmp_path / "here").symlink_to(".")
    refuse_outside_links(tmp_path)
    prepare_folder(tmp_path)


@pytest.mark.parametrize("name", [LOCK_NAME, "metrics.jsonl", "eval.png", "checkpoints", "checkpoints2/c_1.pt"])
@pytest.mark.parametrize("relative", [False, True])
def test_a_link_that_leads_out_is_named(tmp_path, elsewhere, name, relative):
    run = tmp_path / "run"
    (run / name).parent.mkdir(parents=True)
    target = elsewhere if name == "checkpoints" else elsewhere / "precious"
    (run / name).symlink_to(os.path.relpath(target, (run / name).parent) if relative else target)
    for call in (lambda: refuse_outside_links(run), lambda: prepare_folder(run), WriterLock(run).take):
        with pytest.raises(UnsafeFolderError, match=name):
            call()


def test_a_folder_that_is_itself_a_link_may_be_written(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    prepare_folder(tmp_path / "link")
    with WriterLock(tmp_path / "link"), atomic_file(tmp_path / "link" / "a") as file:
        file.write(b"1")
    assert (tmp_path / "there" / "a").read_bytes() == b"1"


def test_a_link_is_replaced_not_followed(tmp_path, elsewhere):
    (tmp_path / "file").symlink_to(elsewhere / "precious")
    with atomic_file(tmp_path / "file") as file:
        file.write(b"new")
    assert not (tmp_path / "file").is_symlink() and (tmp_path / "file").read_bytes() == b"new"


def test_files_of_killed_processes_are_removed(tmp_path):
    mine = temporary_name(tmp_path / "c.pt")
    host = mine.name.removesuffix(".tmp").rpartition(".")[2].split("-")[0]
    dead = tmp_path / f".c.pt.{host}-{1 << 30}-0.tmp"
    other = tmp_path / ".c.pt.elsewhere-1-0.tmp"
    for path in (mine, dead, other, tmp_path / ".mine.tmp"):
        path.touch()
    assert stale_files(tmp_path) == [dead] and other.exists()
    prepare_folder(tmp_path)
    assert not dead.exists() and mine.exists() and other.exists() and (tmp_path / ".mine.tmp").exists()


@pytest.fixture
def synced(monkeypatch):
    """The folders and files that were fsynced."""
    paths = []
    monkeypatch.setattr(FileSystem, "fsync", lambda self, fd: paths.append(os.readlink(f"/proc/self/fd/{fd}")))
    return paths


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to name a file handle")
def test_every_folder_that_is_created_is_synced_in_its_parent(tmp_path, synced):
    prepare_folder(tmp_path / "a" / "b" / "c")
    assert sorted(synced) == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    prepare_folder(tmp_path / "a" / "b" / "c")
    assert len(synced) == 3


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to name a file handle")
@pytest.mark.parametrize("kind", ["checkpoints", "rollouts"])
def test_a_saver_syncs_the_parent_of_its_folder(tmp_path, synced, kind):
    if kind == "checkpoints":
        with AsyncCheckpointSaver() as saver:
            saver.save_async({"x": 1}, tmp_path / "new" / "c.pt")
    else:
        with RolloutStorage(tmp_path / "new") as storage:
            storage.save({"reward": torch.zeros(2, 3)}, 0)
    assert synced[0] == str(tmp_path) and synced[-1] == str(tmp_path / "new")


@pytest.mark.parametrize("name", [LOCK_NAME, "metrics.jsonl"])
def test_a_file_with_a_second_name_elsewhere_is_not_written(tmp_path, elsewhere, name):
    (tmp_path / "run").mkdir()
    os.link(elsewhere / "precious", tmp_path / "run" / name)
    with pytest.raises(UnsafeFolderError, match="second name"):
        open_in_place(tmp_path / "run" / name)
    if name == LOCK_NAME:
        with pytest.raises(UnsafeFolderError, match="second name"):
            WriterLock(tmp_path / "run").take()


def test_a_pipe_is_not_opened_as_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError):
        open_in_place(tmp_path / "pipe")
