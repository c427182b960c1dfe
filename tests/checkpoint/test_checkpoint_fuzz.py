"""Mutated indexes with checksums that fit: every one loads, or is refused with one sentence. The soak runs many."""

import copy
import json
import random
import struct
import zlib

import numpy as np
import pytest
import torch

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.checkpoint.retention import read_entry
from slipstream.storage.container import HEADER
from slipstream.storage.errors import SaveError

VALUES = [
    *(0, 1, -1, 7, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 1.5, 1e300, -0.0, True, False, None),
    *(
        "",
        "x",
        "numpy:O",
        "numpy:<f4",
        "numpy:V8",
        "float32",
        "int8",
        "bf16",
        "\x1b[31m",
        "a" * 5000,
        "cuda:99",
        "meta",
    ),
    *([], {}, [0], [1, 2, 3], [[]], ["tensor", 0], ["dict", [[["tuple", [1]], 1]]], ["device", "cuda:999999999"]),
    *(["set", [["list", []]]], ["tensordict", [[["a", ["tensor", 0]]], [3]]], ["stack", ["list", [1, ["list", [2]]]]]),
    *(
        ["numpy", ["<U3", "00"]],
        ["size", [2**63]],
        ["int", "-0x1"],
        ["float", "7ff0000000000000"],
        ["parameter", [0, 1]],
    ),
]


def places(node, path=()):
    """The path of every value in a JSON tree."""
    yield path
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(child, (*path, key))


def mutate(index, rng):
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        *parents, last = rng.choice([path for path in places(index) if path])
        node = index
        for key in parents:
            node = node[key]
        action = rng.random()
        if action < 0.7:
            node[last] = copy.deepcopy(rng.choice(VALUES))
        elif action < 0.85:
            del node[last]
        else:
            node[last] = [copy.deepcopy(node[last]) for _ in range(rng.choice((1, 2, 100)))]


def fuzz(path, count, seed):
    rng, good = random.Random(seed), path.read_bytes()
    fields = list(HEADER.unpack(good[: HEADER.size]))
    text = good[fields[5] :]
    loaded = 0
    for n in range(count):
        index = json.loads(text)
        mutate(index, rng)
        body = json.dumps(index).encode()
        fields[6], fields[7] = len(body), zlib.crc32(body)
        raw = HEADER.pack(*fields)[:-4]
        path.write_bytes(raw + struct.pack("<I", zlib.crc32(raw)) + good[HEADER.size : fields[5]] + body)
        try:
            load_checkpoint(path, max_bytes=256 << 20)
            loaded += 1
        except SaveError as error:
            assert "\n" not in str(error) and "\x1b" not in str(error), (n, str(error))
        read_entry(path)
    path.write_bytes(good)
    return loaded


@pytest.fixture
def path(tmp_path):
    flat = torch.arange(24.0)
    state = {
        "model": {"weight": flat, "row": flat[4:8], "half": torch.ones(3).bfloat16()},
        "state": {0: {"exp_avg": torch.randn(2000), "step": torch.tensor(3.0)}},
        "array": np.arange(5),
        "values": [1, 2.5, float("inf"), 1 << 80, "text", None, b"raw", {1, 2}, torch.Size([2]), np.float32(2)],
    }
    with AsyncCheckpointSaver(threads=1, moments="int8") as saver:
        return saver.save_async(state, tmp_path / "c.pt", metrics={"return": 1.5}, step=3)


def test_mutated_indexes_load_or_are_refused(path):
    assert 0 < fuzz(path, 300, seed=1) < 300


@pytest.mark.soak
def test_a_hundred_thousand_mutated_indexes(path):
    fuzz(path, 100_000, seed=2)
