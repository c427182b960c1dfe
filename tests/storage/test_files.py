"""Links that lead out of a folder: writes and deletes never follow them, and the folder is refused with their names."""

import os

import pytest

from slipstream.storage.errors import UnsafeFolderError
from slipstream.storage.files import (
    LOCK_NAME,
    WriterLock,
    atomic_file,
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
    assert stale_files(tmp_path) == [dead] and set(stale_files(tmp_path, every_host=True)) == {dead, other}
    prepare_folder(tmp_path)
    assert not dead.exists() and mine.exists() and other.exists() and (tmp_path / ".mine.tmp").exists()
