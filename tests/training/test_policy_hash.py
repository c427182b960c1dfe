"""The SHA-256 that a command prints is that of the bytes it loaded, whatever a training does to the file meanwhile."""

from __future__ import annotations

import hashlib

import pytest
import torch

from slipstream.algorithms.policy_file import load_policy
from slipstream.checkpoint import load

CONFIG = {"task": "navigation", "env": {}, "model": {}, "algo": {"name": "ppo"}}


def write(path, number):
    torch.save({"config": CONFIG, "policy": {"x": torch.full((2,), float(number))}}, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_policy_that_goes_while_it_is_loaded(tmp_path, monkeypatch, replaced):
    path, other, plain = tmp_path / "best.pt", tmp_path / "other.pt", load.read_torch
    sha256 = write(path, 1)
    write(other, 2)

    def read_torch(*args):  # the bytes of the file were read, and nothing is made of them
        other.replace(path) if replaced else path.unlink()
        return plain(*args)

    monkeypatch.setattr(load, "read_torch", read_torch)
    found = load_policy(path)
    assert found.message() == f"policy: {path}, sha256 {sha256}" and found.state["policy"]["x"].tolist() == [1.0, 1.0]
