"""The SHA-256 that a command prints is that of the bytes it loaded, whatever a training does to the file meanwhile."""

from __future__ import annotations

import hashlib

import torch

from slipstream.algorithms.policy_file import load_policy
from slipstream.checkpoint import load

CONFIG = {"task": "navigation", "env": {}, "model": {}, "algo": {"name": "ppo"}}


def write(path, number):
    torch.save({"config": CONFIG, "policy": {"x": torch.full((2,), float(number))}}, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def before_parsing(monkeypatch, action):
    """Do `action` when the bytes of a file were read and nothing is made of them."""
    plain = load.read_torch

    def read_torch(*args):
        action()
        return plain(*args)

    monkeypatch.setattr(load, "read_torch", read_torch)


def test_a_policy_that_is_removed_while_it_is_loaded(tmp_path, monkeypatch):
    path = tmp_path / "best.pt"
    sha256 = write(path, 1)
    before_parsing(monkeypatch, path.unlink)
    assert load_policy(path).message() == f"policy: {path}, sha256 {sha256}"


def test_a_policy_that_is_replaced_while_it_is_loaded(tmp_path, monkeypatch):
    path, other = tmp_path / "best.pt", tmp_path / "other.pt"
    sha256 = write(path, 1)
    write(other, 2)
    before_parsing(monkeypatch, lambda: other.replace(path))
    found = load_policy(path)
    assert found.sha256 == sha256 and found.state["policy"]["x"].tolist() == [1.0, 1.0]
