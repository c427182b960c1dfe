"""Torch files that another program made on purpose: nothing is loaded that was not checked, and nothing hides others."""

import collections
import contextlib
import os
import struct
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from slipstream import cli
from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.checkpoint import load_checkpoint
from slipstream.checkpoint.errors import CorruptCheckpointError
from slipstream.checkpoint.load import sha256_of
from slipstream.tasks.navigation.env import NavigationConfig

BUDGET = 1 << 20
BYTEARRAY_BOMB = b"\x80\x02c__builtin__\nbytearray\n\x8a\x05" + (1 << 33).to_bytes(5, "little") + b"\x85R."


def remade(source, target, edit, compression=zipfile.ZIP_STORED):
    """Write `target` with the entries of an archive, changed by edit(name, data) -> (name, data)."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for entry in old.infolist():
            new.writestr(*edit(entry.filename, old.read(entry)))
    return target


@pytest.fixture
def small(tmp_path):
    torch.save({"a": torch.ones(4)}, tmp_path / "small.pt")
    return tmp_path / "small.pt"


@pytest.mark.parametrize("name", ["data.pkl", "DATA.PKL", "Data.pkl"])
def test_the_pickle_is_checked_however_it_is_spelled(small, name):
    def edit(entry, data):
        return (entry.replace("data.pkl", name), BYTEARRAY_BOMB) if entry.endswith("data.pkl") else (entry, data)

    with pytest.raises(CorruptCheckpointError, match="bytearray"):
        load_checkpoint(remade(small, small.with_name("bomb.pt"), edit), max_bytes=BUDGET)


def two_directories(small, large):
    """Return an archive whose directory for Python is that of `small`, and for torch that of `large`."""
    size = struct.Struct("<4s4H2LH").size
    directories = []
    for path in (small, large):
        data = path.read_bytes()
        count, _, length, offset = struct.unpack("<HHLL", data[-size:][8:20])
        directories.append((data[:offset], data[offset : offset + length], count))
    (files, seen, _), (big_files, hidden, count) = directories
    start = len(big_files)  # of the directory that torch reads
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(seen), start, 0)
    return big_files + hidden + files + seen + end


def test_torch_sees_only_the_directory_that_was_checked(small):
    torch.save({"a": torch.zeros(BUDGET)}, small.with_name("large.pt"))
    same = lambda entry, data: (entry.replace("large/", "small/"), data)  # noqa: E731
    plain = remade(small, small.with_name("plain.pt"), same)
    bomb = remade(small.with_name("large.pt"), small.with_name("bomb.pt"), same, zipfile.ZIP_DEFLATED)
    path = small.with_name("two.pt")
    path.write_bytes(two_directories(plain, bomb))
    with contextlib.suppress(CorruptCheckpointError):
        assert load_checkpoint(path, max_bytes=BUDGET)["a"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["values", "keys"])
def test_a_mapping_that_replaces_its_methods_is_refused(small, name):
    state = collections.OrderedDict(a=1)
    setattr(state, name, 5)
    torch.save({"policy": state}, small)
    with pytest.raises(CorruptCheckpointError, match="its own methods"):
        load_checkpoint(small)


def test_a_state_dict_keeps_its_metadata(small):
    torch.save(torch.nn.Linear(2, 2).state_dict(), small)
    assert load_checkpoint(small)._metadata[""] == {"version": 1}


def nested(levels, width):
    state = ()
    for _ in range(levels):
        state = (state,) * width
    return state


def itself():
    state = {}
    state["a"] = [state]
    return state


@pytest.mark.parametrize("make", [itself, lambda: nested(90, 2), lambda: nested(150, 1)])
def test_a_state_without_end_is_refused(small, make):
    torch.save({"policy": make()}, small)
    with pytest.raises(CorruptCheckpointError, match="contains itself"):
        load_checkpoint(small)


@pytest.fixture
def folder(small, monkeypatch):
    """A good file, a bomb, and a sparse file of a terabyte."""
    monkeypatch.setenv("SLIPSTREAM_MAX_BYTES", str(BUDGET))
    torch.save({"a": torch.zeros(BUDGET)}, small.with_name("bomb.pt"))
    (small.parent / "sparse.pt").touch()
    os.truncate(small.parent / "sparse.pt", 1 << 40)
    return small.parent


def test_a_file_that_is_too_large_does_not_hide_the_others(folder, capsys):
    assert cli.main(["ckpt", "verify", str(folder)]) == 1
    assert "1 good, 2 broken" in capsys.readouterr().out
    assert cli.main(["ckpt", "info", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert sha256_of(folder / "small.pt") in shown and shown.count("no sha256") == 2


def test_a_list_of_hashes_is_read_within_bounds(small):
    (small.parent / "SHA256SUMS").touch()
    os.truncate(small.parent / "SHA256SUMS", 1 << 40)
    assert cli.main(["eval", f"checkpoint={small}"]) == 2


def test_a_tensor_among_the_settings_of_a_policy_is_damage():
    env = SimpleNamespace(config=NavigationConfig(), spec_settings=("max_speed_mps",))
    given = {"config": {"env": {"max_speed_mps": torch.ones(2)}}}
    with pytest.raises(CorruptCheckpointError, match=r"^p\.pt: a part of the saved state"):
        LoadedPolicy(given, Path("p.pt"), "slipstream", "").other_settings(env)
