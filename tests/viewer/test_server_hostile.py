"""Runs and recordings that another program made on purpose: the page of the others still opens."""

from __future__ import annotations

import json
import os
import urllib.parse

import pytest
from helpers.recordings import flight, write_run
from test_server import ask

from slipstream.viewer.library import Library
from slipstream.viewer.server import Server

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
def test_a_hostile_run_does_not_hide_the_others(tmp_path, kind):
    write_run(tmp_path / "good")
    write_run(tmp_path / "bad")
    HOSTILE[kind](tmp_path / "bad")
    flight().save(tmp_path / "flight.rec")
    server = Server(Library(tmp_path))
    server.start()
    try:
        answer, data = ask(server, "/api/index")
        assert answer.status == 200
        runs = [run["name"] for run in json.loads(data)["runs"]]
        assert "good" in runs and len(runs) == 2
        for run in runs:
            answer, data = ask(server, f"/api/run?name={urllib.parse.quote(run)}")
            assert answer.status == 200 and json.loads(data)["name"] == run
    finally:
        server.stop()
