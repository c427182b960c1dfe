"""Runs and recordings that another program made on purpose: the page of the others still opens."""

from __future__ import annotations

import json
import os
import urllib.parse

import pytest
from helpers.recordings import flight, write_run
from test_server import ask

from slipstream.viewer import library as library_module
from slipstream.viewer.library import Library

BOMB = "a: &a [1, 1]\n" + "".join(f"b{i}: &b{i} [*{f'b{i - 1}' if i else 'a'}, *{f'b{i - 1}' if i else 'a'}]\n" for i in range(30))  # fmt: skip


def log_of(text):
    return lambda run: (run / "metrics.jsonl").write_bytes(text)


def config_of(text):
    return lambda run: (run / "config.yaml").write_text(text)


def pipe(run):
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")


def link_to_pipe(run):
    os.mkfifo(run.parent / "pipe")
    (run / "metrics.jsonl").unlink()
    os.symlink(run.parent / "pipe", run / "metrics.jsonl")


def names_that_are_no_text(run):
    for name in (b"\xff.png", b"checkpoints/ckpt_\xff.pt"):
        path = os.path.join(os.fsencode(run), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "wb").close()
    os.rename(run, os.fsencode(run.parent) + b"/\xfe")


HOSTILE = {
    "NaN": log_of(b'{"iteration": 1, "x": NaN, "y": Infinity, "z": 1' + b"0" * 400 + b"}\n"),
    "half a character": log_of(b'{"iteration": 1, "\\ud800": 1}\n'),
    "pipe": pipe,
    "link to a pipe": link_to_pipe,
    "aliases": config_of(BOMB + "task: *b29\n"),
    "itself": config_of("a: &x [*x]\n"),
    "dates": config_of("task: 2020-01-01\na: !!timestamp 2020-01-01\nb: .nan\n"),
    "text": config_of('task: "\\ud800"\n'),
    "names": names_that_are_no_text,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_run_does_not_hide_the_others(tmp_path, serve, kind):
    write_run(tmp_path / "good")
    write_run(tmp_path / "bad")
    HOSTILE[kind](tmp_path / "bad")
    flight().save(tmp_path / "flight.rec")
    server = serve(tmp_path)
    answer, data = ask(server, "/api/index")
    assert answer.status == 200
    runs = [run["name"] for run in json.loads(data)["runs"]]
    assert "good" in runs and len(runs) == 2
    for run in runs:
        answer, data = ask(server, f"/api/run?name={urllib.parse.quote(run)}")
        assert answer.status == 200 and json.loads(data)["name"] == run


LINKED = ("config.yaml", "metrics.jsonl", "flight.rec", "plot.png")


def test_hard_links_to_files_elsewhere_are_not_shown(tmp_path):
    """Another user cannot read our files, but may link them into a folder that we show."""
    root, run = tmp_path / "runs", tmp_path / "runs" / "bad"
    write_run(run)
    write_run(root / "good")
    for name in LINKED:
        private = tmp_path / name
        private.write_bytes(b"task: private\n")
        (run / name).unlink(missing_ok=True)
        os.link(private, run / name)
    library = Library(root)
    index = library.index()
    facts = {entry["name"]: entry for entry in [*index["runs"], *index["recordings"]]}
    assert "private" not in json.dumps(index) and facts["good"]["task"] == "navigation"
    assert all("a hard link" in facts[name]["error"] for name in ("bad", "bad/flight.rec"))
    for ask_for in (lambda: library.recording("bad/flight.rec"), lambda: library.figure("bad", "plot.png"),
                    lambda: library.run("bad")):  # fmt: skip
        with pytest.raises(PermissionError, match="a hard link"):
            ask_for()


def test_a_run_with_many_files_hides_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(library_module, "MOST_ENTRIES", 20)
    monkeypatch.setattr(library_module, "MOST_SHOWN", 4)
    write_run(tmp_path / "a")
    for k in range(40):
        (tmp_path / "a" / f"{k}.rec").write_bytes(b"")
        (tmp_path / "a" / "checkpoints" / f"{k}").touch()
    for name in ("b", "sweep/c"):
        write_run(tmp_path / name)
        (tmp_path / name / "recordings").mkdir()
        flight().save(tmp_path / name / "recordings" / "1.rec")
    index = Library(tmp_path).index()
    assert {run["name"] for run in index["runs"]} == {"a", "b", "sweep/c"}
    shown = {entry["name"] for entry in index["recordings"]}
    assert {"b/recordings/1.rec", "sweep/c/recordings/1.rec"} < shown and len(shown) == 4
