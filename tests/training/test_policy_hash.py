"""The SHA-256 that a command prints is that of the bytes it loaded, whatever a training does to the file meanwhile."""

from __future__ import annotations

import hashlib

import pytest
import torch

from slipstream.algorithms.policy_file import load_policy
from slipstream.checkpoint import load
from slipstream.checkpoint.errors import CheckpointError

CONFIG = {"task": "navigation", "env": {}, "model": {}, "algo": {"name": "ppo"}}


def write(path, number):
    torch.save({"config": CONFIG, "policy": {"x": torch.full((2,), float(number))}}, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def at_load(monkeypatch, action):
    """Do `action` after each load."""
    plain = load.load_checked

    def load_checked(path):
        state = plain(path)
        action()
        return state

    monkeypatch.setattr(load, "load_checked", load_checked)


def test_a_policy_that_is_removed_after_it_was_loaded(tmp_path, monkeypatch):
    path = tmp_path / "best.pt"
    sha256 = write(path, 1)
    at_load(monkeypatch, path.unlink)
    assert load_policy(path).message() == f"policy: {path}, sha256 {sha256}"


def test_a_policy_that_is_replaced_while_it_is_loaded(tmp_path, monkeypatch):
    path, other, hashes = tmp_path / "best.pt", tmp_path / "other.pt", []
    write(path, 1)

    def replace():
        if not hashes:
            hashes.append(write(other, 2))
            other.replace(path)

    at_load(monkeypatch, replace)
    found = load_policy(path)
    assert found.sha256 == hashes[0] and found.state["policy"]["x"].tolist() == [2.0, 2.0]


def test_a_policy_that_never_stays_the_same_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "best.pt"
    write(path, 0)
    at_load(monkeypatch, lambda: path.write_bytes(path.read_bytes() + b"x"))
    with pytest.raises(CheckpointError, match="changes while it is read|not a readable torch file|directory"):
        load_policy(path)
