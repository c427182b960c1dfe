"""What a step may consist of: any keys, fixed by the first data, `next_K` recognized."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slipstream.replay import ReplayBuffer


def documents_episode(length, seed=0, size=12):
    """In the documents' form: every observation with its next_ twin."""
    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 3, (length + 1, size, size)).astype(np.float32)
    nodes = rng.normal(size=(length + 1, 5, 4)).astype(np.float32)
    nodes[rng.random(nodes.shape) < 0.1] = np.nan
    nodes[rng.random(nodes.shape) < 0.1] = -0.0
    return {
        "node_inputs": nodes[:-1].copy(),
        "gridmap_inputs": grid[:-1].copy(),
        "action": rng.integers(0, 4, length),
        "reward": rng.normal(size=length),
        "done": np.arange(length) == length - 1,
        "next_node_inputs": nodes[1:].copy(),
        "next_gridmap_inputs": grid[1:].copy(),
    }


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_the_documents_form_is_given_back_exactly_and_kept_once():
    buffer, episodes = ReplayBuffer(1000), [documents_episode(n, n) for n in (1, 2, 30, 100)]
    for episode in episodes:
        buffer.add(episode)
    drawn = buffer.get(np.arange(133))
    for key in episodes[0]:
        assert same_bits(drawn[key].numpy(), np.concatenate([e[key] for e in episodes])), key
    assert set(drawn.keys()) == {*episodes[0], "index", "discount"}
    assert buffer.stats()["rows"] == 133 + 4  # one final observation an episode
    assert set(buffer.stats()["columns"]) == {"node_inputs", "gridmap_inputs", "action", "reward", "done"}


def test_a_next_key_that_differs_somewhere_is_still_exact():
    buffer = ReplayBuffer(1000)
    episodes = [documents_episode(50, 1), documents_episode(50, 2)]
    episodes[1]["next_gridmap_inputs"][[3, 4, 20]] += 7
    for episode in episodes:
        buffer.add(episode)
    drawn = buffer.get(np.arange(100))
    for key in episodes[0]:
        assert same_bits(drawn[key].numpy(), np.concatenate([e[key] for e in episodes])), key
    assert buffer.stats()["rows"] == 102 + 3
    assert buffer.get(np.arange(50, 100), n_step=3)["done"].sum() == 3  # the episode goes on across the strange ones


def test_a_next_key_that_is_no_successor_comes_back():
    episode = {"x": np.arange(20.0), "next_x": np.arange(20.0) ** 2, "done": np.zeros(20, bool)}
    buffer = ReplayBuffer(100)
    buffer.add(episode)
    drawn = buffer.get(np.arange(20))
    assert same_bits(drawn["next_x"].numpy(), episode["next_x"])


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8, torch.bool, torch.int64]
)
def test_dtypes_come_back_as_they_were(dtype):
    x = (torch.randn(21, 40) * 3).to(dtype)
    buffer = ReplayBuffer(100)
    buffer.add({"observation": x, "flag": torch.zeros(20, dtype=dtype)})
    drawn = buffer.get(np.arange(20))
    assert torch.equal(drawn["observation"], x[:-1]) and drawn["observation"].dtype == dtype
    assert torch.equal(drawn["next", "observation"], x[1:])


def test_graphs_of_varying_size_come_padded_with_masks():
    rng = np.random.default_rng(0)
    nodes = [rng.normal(size=(n, 3)).astype(np.float32) for n in (2, 5, 1, 4)]
    edges = [rng.integers(0, 2, (len(n), len(n))) for n in nodes]
    buffer = ReplayBuffer(100, ragged={"nodes": (6, None), "edges": (6, 6)})
    buffer.add(
        {
            "nodes": nodes[:-1],
            "next_nodes": nodes[1:],
            "edges": edges[:-1],
            "next_edges": edges[1:],
            "done": np.zeros(3, bool),
        }
    )
    drawn = buffer.get(np.arange(3))
    for t in range(3):
        for name, array in (
            ("nodes", nodes[t]),
            ("next_nodes", nodes[t + 1]),
            ("edges", edges[t]),
            ("next_edges", edges[t + 1]),
        ):
            inside = drawn[name + "_mask"][t]
            assert int(inside.sum()) == (len(array) if "nodes" in name else array.size)
            assert np.array_equal(drawn[name][t][inside].numpy().reshape(array.shape), array)
            assert not drawn[name][t][~inside].any()
    with pytest.raises(ValueError, match=r"'nodes' is \[7, 3\] at step 0, larger than the \[6, 3\]"):
        buffer.add(
            {"nodes": [np.zeros((7, 3), np.float32)], "edges": [np.zeros((7, 7), int)], "done": np.zeros(1, bool)}
        )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"action": np.zeros((10, 2))},
            ValueError,
            r"'action' has the shape \[2\] per step, at the first add it had \[\]",
        ),
        (
            {"reward": np.zeros(10, np.float32)},
            TypeError,
            "'reward' is torch.float32, at the first add it was torch.float64",
        ),
        ({"extra": np.zeros(10)}, KeyError, "'extra' is new"),
        ({"action": None}, KeyError, "'action' is missing"),
        ({"next_gridmap_inputs": None}, KeyError, "'next_gridmap_inputs' is missing"),
        ({"action": np.zeros(8, np.int64)}, ValueError, "'action' has 8 rows, the episode has 10 steps"),
        ({"gridmap_inputs": [b"a", b"b"]}, TypeError, "'gridmap_inputs' holds compressed bytes: give the arrays"),
    ],
)
def test_later_data_that_differ_are_refused_by_name(change, error, message):
    buffer = ReplayBuffer(100)
    buffer.add(documents_episode(10))
    episode = {k: v for k, v in {**documents_episode(10), **change}.items() if v is not None}
    with pytest.raises(error, match=message):
        buffer.add(episode)
    buffer.add(documents_episode(10))  # and nothing of it was kept
    assert len(buffer) == 20


def test_arrays_of_varying_size_need_their_limits():
    with pytest.raises((TypeError, ValueError), match="ragged|inhomogeneous"):
        ReplayBuffer(100).add({"nodes": [np.zeros((2, 3)), np.zeros((4, 3))], "done": np.zeros(2, bool)})


def test_only_the_named_keys_are_kept():
    buffer = ReplayBuffer(100, keys=["gridmap_inputs", "action", "done"])
    buffer.add(documents_episode(10))
    assert set(buffer.sample(3).keys()) == {
        "gridmap_inputs",
        "next_gridmap_inputs",
        "action",
        "done",
        "index",
        "discount",
    }


def test_a_batch_has_memory_of_its_own():
    buffer = ReplayBuffer(100)
    buffer.add(documents_episode(50, size=64))
    held = buffer.sample(32)
    copy = held.clone()
    view = buffer.sample(32)["gridmap_inputs"][3:5]  # of a batch that is gone
    kept = view.clone()
    for _ in range(20):
        buffer.sample(32)
    assert all(torch.equal(held[key], copy[key]) or held[key].isnan().any() for key in copy.keys())  # noqa: SIM118
    assert torch.equal(view, kept)


def test_drawing_from_an_empty_or_closed_buffer_says_so():
    buffer = ReplayBuffer(10)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)
    buffer.close()
    with pytest.raises(RuntimeError, match="closed"):
        buffer.add(documents_episode(2))
    buffer.close()


@pytest.mark.parametrize("storage", ["cpu", "ring"])
@pytest.mark.parametrize(
    "settings",
    [
        *({}, {"capacity": 1, "capacity_bytes": 1}, {"capacity": 0}, {"capacity": 2.5}, {"capacity": float("nan")}),
        *({"capacity_bytes": -1}, {"capacity_bytes": float("inf")}, {"capacity": 1, "sampler": "best"}),
        {"capacity": 1, "codec": "zip"},
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, storage):
    with pytest.raises(ValueError, match=r"capacity|codec|sampler='best' is unknown"):
        ReplayBuffer(**settings, storage=storage)
