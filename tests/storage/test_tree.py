"""Nested states as a tree and tensors: TensorDicts, missing tensors, parts, and what is refused."""

import gc
import json
import weakref
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from enum import IntEnum
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from slipstream.storage import tree as names
from slipstream.storage.errors import DamagedFileError, SaveError
from slipstream.storage.tensor_file import Reader
from slipstream.storage.tree import flatten, register_named_tuple, select, unflatten, walk_leaves


def through_json(state, **options):
    tree, leaves = flatten(state, **options)
    return json.loads(json.dumps(tree, allow_nan=False)), leaves


def round_trip(state):
    tree, leaves = through_json(state)
    return unflatten(tree, leaves.data.__getitem__)


def test_detached_tensors_are_plain():
    weight = torch.nn.Parameter(torch.ones(2))
    tree, leaves = through_json({"p": weight, "x": torch.ones(1, requires_grad=True)}, detach=True)
    state = unflatten(tree, leaves.data.__getitem__)
    assert type(state["p"]) is torch.Tensor and not state["p"].requires_grad and not state["x"].requires_grad


def test_paths_and_parts():
    state = {"model": OrderedDict({"0.weight": torch.ones(1)}), "list": [torch.zeros(1)], "n": 1}
    tree, leaves = flatten(state)
    assert list(walk_leaves(tree)) == [(("model", "0.weight"), 0), (("list", 0), 1)]
    part = unflatten(select(tree, ["n", "model.0.weight"]), leaves.data.__getitem__)
    assert part == {"model": {"0.weight": leaves.data[0]}, "n": 1} and type(part["model"]) is OrderedDict
    for whole in (tree, 3, [1], {"$tuple": [1]}):
        with pytest.raises(KeyError, match="no modle in"):
            select(whole, ["modle"])


def test_a_state_that_holds_itself_is_refused():
    state = {}
    state["self"] = state
    with pytest.raises(TypeError, match="holds itself"):
        flatten(state)


WRONG = [
    {"$tensor": 5},
    {"$tensor": False},
    {"$tensor": -1},
    {"$tensor": 0, "more": 1},
    {"$dict": [[{"$tensor": 0}, 1]]},
    {"$dtype": "load"},
]
WRONG += [{"$numpy": ["O", "00"]}, {"$device": "nowhere"}, {"$unknown": 1}, {"$array": 1}, {"$array": [0]}]
WRONG += [
    {"$dict": [[[1], 1]]},
    {"$dict": [[1 << 24, 1]]},
    {"$counter": [[[0.5, 1]], None]},
    {"$odict": [[["a", 1]], 3, 4]},
]


@pytest.mark.parametrize("data", WRONG, ids=str)
def test_a_malformed_tree_is_refused(data):
    with pytest.raises(DamagedFileError, match="^test: "):
        unflatten(data, [torch.ones(1)].__getitem__, Reader("test"))


def test_the_tensors_of_a_state_are_freed_with_it():
    tree, _ = flatten({"a": torch.ones(2), "b": [TensorDict({"c": torch.ones(2)}, [2])]})
    made = [torch.ones(2), torch.ones(2)]
    kept = [weakref.ref(x) for x in made]
    gc.collect()
    gc.disable()
    try:
        state = unflatten(tree, dict(enumerate(made)).__getitem__)
        del made, state
        assert [ref() for ref in kept] == [None] * len(kept)
    finally:
        gc.enable()


KINDS = [
    *(Counter({30: 1, 80: 2}), OrderedDict(a=Counter("aab")), {True: {None: -1}}),
    *(defaultdict(list, a=[1]), defaultdict(None, a=1), deque([1, (2,)], maxlen=3), deque(), Path("a/b")),
]


@pytest.mark.parametrize("state", KINDS, ids=str)
def test_kinds_of_dicts_and_keys_are_kept(state):
    again = round_trip({"s": state, 5: [state]})
    assert again == {"s": state, 5: [state]} and type(again["s"]) is type(state)
    for name in ("default_factory", "maxlen"):
        assert getattr(again["s"], name, None) == getattr(state, name, None)


@pytest.mark.parametrize("key", [(1, 2), 0.5, 1 << 24, Path("x"), b"x"], ids=str)
def test_a_key_whose_hash_could_be_chosen_is_refused(key):
    with pytest.raises(TypeError, match=r"^state\['a'\] has keys that are neither texts nor numbers .*: use texts"):
        flatten({"a": {key: 1}})


class Level(IntEnum):
    LOW = 1


OWN = [type("Own" + kind.__name__, (kind,), {})() for kind in (dict, str, list, tuple, Counter)]
OTHER = [
    *(set(), frozenset(), bytearray(), PurePosixPath("x"), NonTensorStack.from_list(["x", "y"])),
    namedtuple("Point", "x y")(1, 2),
    Level.LOW,
    defaultdict(lambda: 3),
    np.ma.masked_array([1, 2], [True, False]),
    np.str_("x"),
    range(3),
]


@pytest.mark.parametrize("value", OWN + OTHER, ids=lambda value: type(value).__name__)
def test_a_type_that_would_not_come_back_is_refused_by_name(value):
    with pytest.raises(TypeError, match=rf"^state\['a'\]\[0\] is a .*{type(value).__name__}"):
        flatten({"a": [value]})


Point = namedtuple("Point", "x y")


def test_named_tuples_are_kept_where_their_class_is_registered(monkeypatch):
    monkeypatch.setattr(names, "_NAMED_TUPLES", {})
    with pytest.raises(TypeError, match=r"state\['p'\] is a .*Point: call .*register_named_tuple"):
        flatten({"p": Point(1, 2)})
    register_named_tuple(Point, "my.Point")
    tree, leaves = through_json({"p": Point(torch.ones(1), [2])})
    again = unflatten(tree, leaves.data.__getitem__)["p"]
    assert type(again) is Point and again.y == [2] and again.x is leaves.data[0]
    with pytest.raises(TypeError, match="a plain torch file"):
        flatten({"p": Point(1, 2)}, for_torch=True)
    with pytest.raises(ValueError, match="registered already"):
        register_named_tuple(namedtuple("Point", "z"), "my.Point")
    names._NAMED_TUPLES.clear()
    with pytest.raises(SaveError, match="'my.Point': first import its class"):
        unflatten(tree, leaves.data.__getitem__)
    with pytest.raises(TypeError, match="not a class of named tuples"):
        register_named_tuple(tuple)
