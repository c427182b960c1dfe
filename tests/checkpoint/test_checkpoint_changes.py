"""One saver, a state that changes its form between the calls: each file holds what was there at its own call."""

import copy

import numpy as np
import pytest
import torch
from helpers.states import DTYPES, random_tensor, same
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint


def save_each(states, folder, **options):
    """Every state of an iterator saved when it comes, with what it was then; the next change comes at once."""
    kept = []
    with AsyncCheckpointSaver(max_queue_size=2, **options) as saver:
        for i, state in enumerate(states):
            kept.append((copy.deepcopy(state), saver.save_async(state, folder / f"c_{i}.pt")))
    return kept


def test_a_tensor_pointed_at_other_memory_is_read_there(tmp_path):
    weight = torch.zeros(50)

    def states():
        yield {"w": weight}
        weight.data = torch.ones(50)
        yield {"w": weight}
        weight.set_(torch.full((50,), 2.0))
        yield {"w": weight}

    assert [load_checkpoint(path)["w"].unique().item() for _, path in save_each(states(), tmp_path)] == [0, 1, 2]


def test_a_conjugate_or_negative_view_replaces_a_plain_tensor(tmp_path):
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    states = [
        {"a": numbers},
        {"a": numbers.conj()},
        {"a": numbers.clone()},
        {"a": numbers.imag.clone()},
        {"a": numbers.conj().imag},
    ]
    loaded = [load_checkpoint(path)["a"].tolist() for _, path in save_each(iter(states), tmp_path)]
    assert loaded == [[1 + 2j, 3 - 4j], [1 - 2j, 3 + 4j], [1 + 2j, 3 - 4j], [2, -4], [-2, 4]]


@pytest.mark.parametrize("other", [torch.eye(3).to_sparse(), torch.empty(3, 3, device="meta")], ids=["sparse", "meta"])
def test_what_cannot_be_kept_is_refused_in_a_known_place(other, tmp_path):
    with AsyncCheckpointSaver() as saver:
        saver.save_async({"a": torch.eye(3)}, tmp_path / "c_0.pt")
        with pytest.raises(TypeError, match="dense"):
            saver.save_async({"a": other}, tmp_path / "c_1.pt")
        path = saver.save_async({"a": 2 * torch.eye(3)}, tmp_path / "c_2.pt")
    assert torch.equal(load_checkpoint(path)["a"], 2 * torch.eye(3))


def test_moments_become_approximate_only_under_their_own_name(tmp_path):
    values = torch.randn(2000)
    kept = save_each(
        iter([{"exp_avg": values}, {"weight": values}, {"exp_avg": values}]), tmp_path, moments="int8", full_every=2
    )
    assert [torch.equal(next(iter(load_checkpoint(path).values())), values) for _, path in kept] == [False, True, False]


@st.composite
def changes(draw):
    """Some tensors, then for each call a new order, new kinds, new shapes or shared memory for some of them."""
    number = st.integers(0, 10**6)
    kinds = st.sampled_from(
        ["new", "drop", "share", "swap", "turn", "fill", "leaf", "twice", "learn", "array", "double"]
    )
    return draw(st.lists(st.tuples(kinds, number), min_size=3, max_size=10))


@settings(max_examples=40, deadline=None)
@given(changes())
def test_random_changes_are_all_seen(tmp_path_factory, steps):
    def states():
        state = {"t0": torch.arange(30.0).view(5, 6), "t1": torch.ones(7)}
        for what, number in steps:
            names = [k for k, v in state.items() if isinstance(v, torch.Tensor)]
            name = names[number % len(names)] if names else None
            if what == "new" or name is None:
                state[f"t{number % 5}"] = random_tensor(
                    (number % 4, number % 3 + 1), DTYPES[number % len(DTYPES)], number
                )
            elif what == "drop":
                del state[name]
            elif what == "share":
                state["view"] = state[name].detach().flatten()[number % 2 :: 2]
            elif what == "swap":
                state = dict(reversed(state.items()))
            elif what == "turn" and state[name].dim() > 1:
                state[name] = state[name].detach().transpose(0, 1)
            elif what == "fill":
                state[name] = random_tensor(tuple(state[name].shape), state[name].dtype, number)
            elif what == "learn" and state[name].is_floating_point():
                state[name] = torch.nn.Parameter(state[name].detach().clone(), bool(number % 2))
            elif what == "array":
                state["array"] = np.arange(number % 5, dtype="i2" if number % 2 else "f4")
            elif what == "double" and state[name].dtype == torch.float32:
                state[name] = state[name].detach().double()
            elif what == "leaf":
                state["n"] = [number, {"k": str(number)}]
            else:
                state["again"] = state[name]
            yield state

    folder = tmp_path_factory.mktemp("changes")
    for state, path in save_each(states(), folder, full_every=3):
        assert same(load_checkpoint(path), state)
