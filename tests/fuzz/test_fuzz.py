"""Mutated files of every format: each is read, or refused with a documented error in one sentence.

A few seconds here, 1,000,000 inputs in the soak. Inputs that failed once are in corpus/ and are used again each time.
"""

import json
import subprocess
import sys
from pathlib import Path

import harness
import pytest
import targets
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.storage.errors import DamagedFileError, TooLargeError
from slipstream.storage.tensor_file import Reader
from slipstream.storage.tree import flatten, unflatten

SCRIPT = Path(__file__).with_name("harness.py")
SHARE = 0.001  # of the soak's inputs
PROCESSES = 2


def run(names, share, seed):
    """Run the harness in a process of its own: its children are forked from one that has no threads of other tests."""
    words = [*names, "--share", str(share), "--seed", seed, "--save", "fuzz-failures"]
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_mutated_inputs_are_used_or_refused():
    process = run([], SHARE, "test")
    output = process.communicate(timeout=1200)[0]
    assert process.returncode == 0, output
    assert [line.split()[0] for line in output.splitlines() if " inputs, " in line] == list(targets.TARGETS)


@pytest.mark.parametrize("name", targets.TARGETS)
def test_inputs_that_failed_once_are_used_or_refused(name):
    assert harness.replay_corpus(name) == []


@pytest.mark.soak
def test_a_million_mutated_inputs():
    """Run all formats, two at a time, the longest first; print a line for each."""
    waiting = sorted(targets.TARGETS, key=lambda name: targets.TARGETS[name].soak)
    running, outputs, failed = [], [], []
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            name = waiting.pop()
            running.append((name, run([name], 1.0, "soak")))
        name, process = running.pop(0)
        outputs.append(process.communicate()[0])
        failed += [name] if process.returncode else []
    print("\n" + "".join(outputs))
    assert failed == [], "".join(outputs)


def test_a_failing_target_is_found(monkeypatch, tmp_path):
    """Crashes, errors and memory of a child are seen, with the number of the input."""
    import os

    def use(data, folder, rng):
        if data == b"3":
            os.kill(os.getpid(), 11)
        if data == b"5":
            raise RuntimeError("x")
        if data == b"7":
            bytearray(harness.MEMORY + (64 << 20))

    numbers = [str(n).encode() for n in range(10)]
    target = targets.Target("planted", lambda folder: numbers, lambda data, rng: data, use, (ValueError,), 10)
    monkeypatch.setitem(targets.TARGETS, "planted", target)
    monkeypatch.setattr(targets, "make_input", lambda target, seeds, seed, number: (seeds[number], None))
    report = harness.run_target("planted", 10, "1", tmp_path)
    assert {number: what[:10] for number, what in report.failures} == {
        3: "the proces",
        5: "RuntimeErr",
        7: "takes 576 ",
    }
    assert report.count == 10 and (tmp_path / "planted-1-5.bin").read_bytes() == b"5"


# --- values of any shape, by hypothesis

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=20)
KEYS = st.text() | st.integers(1 - 2**24, 2**24 - 1) | st.none()
STATES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner), max_leaves=20
)
TAGS = ["$dict", "$tuple", "$tensor", "$array", "$parameter", "$int", "$numpy", "$size", "$odict", "$counter", "a"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(TAGS), inner, min_size=1, max_size=2),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(STATES)
def test_any_nested_state_comes_back(state):
    tree, leaves = flatten(state)
    again = unflatten(json.loads(json.dumps(tree)), leaves.data.__getitem__)
    assert again == state and type(again) is type(state)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_any_json_is_a_tree_or_refused(data):
    reader = Reader("x", max_bytes=1 << 20)
    try:
        unflatten(data, [torch.ones(1), torch.ones(2)].__getitem__, reader)
    except (DamagedFileError, TooLargeError) as error:
        assert "\n" not in str(error)
