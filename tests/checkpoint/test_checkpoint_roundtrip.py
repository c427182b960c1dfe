import numpy as np
import pytest
import torch
from checkpoint_strategies import states
from helpers.states import random_tensor, same, training_state
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.checkpoint import AsyncCheckpointSaver, CheckpointError, CorruptCheckpointError, load_checkpoint
from slipstream.checkpoint.saver import round_moments
from slipstream.storage.staging import Staging
from slipstream.storage.tree import flatten

FORMS = [True, "lz4", False]


def round_trip(state, folder, compress=True, **options):
    with AsyncCheckpointSaver(**options) as saver:
        path = saver.save_async(state, folder / "c.pt", compress)
    return load_checkpoint(path)


LIMITS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def check_forms(state, folder):
    """A random state comes back bit for bit: from a complete file, and from a difference to it."""
    with AsyncCheckpointSaver(full_every=3) as saver:
        paths = [saver.save_async(state, folder / f"c_{i}.pt") for i in range(2)]
        saver.wait()
        assert saver.get_stats()["differences"] == 1
    assert all(same(load_checkpoint(path), state) for path in paths)


@settings(max_examples=150, **LIMITS)
@given(state=states())
def test_random_states_come_back_bit_for_bit(state, tmp_path):
    check_forms(state, tmp_path)


@pytest.mark.soak
@settings(max_examples=6000, **LIMITS)
@given(state=states())
def test_many_random_states_come_back_bit_for_bit(state, tmp_path):
    check_forms(state, tmp_path)


@settings(max_examples=60, **LIMITS)
@given(state=states(torch_kinds=True))
@pytest.mark.parametrize("compress", ["lz4", False])
def test_random_states_come_back_through_the_torch_forms(state, compress, tmp_path):
    assert same(round_trip(state, tmp_path, compress), state)


@pytest.mark.parametrize("compress", FORMS)
def test_shared_storage_stays_shared_and_other_storage_apart(compress, tmp_path):
    flat = torch.arange(12.0)
    state = {"flat": flat, "row": flat[4:8], "twice": flat, "other": torch.ones(3)}
    loaded = round_trip(state, tmp_path, compress)
    assert same(loaded, state)
    loaded["row"][0] = 77
    assert loaded["flat"][4] == 77 and loaded["twice"][4] == 77
    assert loaded["other"].untyped_storage().nbytes() == 12


def test_a_view_of_a_large_storage_does_not_drag_it_along(tmp_path):
    big = torch.randn(1000, 1000)
    state = {"column": big[:, 0], "empty": torch.from_numpy(np.array([])), "wide": torch.ones(1, 3).expand(4, 3)}
    loaded = round_trip(state, tmp_path)
    assert (tmp_path / "c.pt.slip").stat().st_size < 20_000
    assert same(loaded, state) and loaded["wide"].stride() == (3, 1)
    assert loaded["empty"].stride() == (1,) and loaded["empty"].view(torch.uint8).numel() == 0


def test_views_of_different_dtype_on_one_storage_come_back(tmp_path):
    flat = random_tensor((64,), torch.uint8, 4)
    state = {
        "odd": flat[17:30],
        "floats": flat[20:60].view(torch.float32),
        "conj": torch.randn(3, dtype=torch.complex64).conj(),
    }
    loaded = round_trip(state, tmp_path)
    assert same(loaded["odd"], state["odd"]) and same(loaded["floats"], state["floats"])
    assert same(loaded["conj"], state["conj"].resolve_conj())


def test_large_tensors_cross_chunk_borders(tmp_path):
    state = {
        "a": torch.randn(700_001),
        "b": torch.zeros(300_000),
        "c": torch.randn(300_000).bfloat16(),
        "d": torch.arange(200_000),
    }
    assert same(round_trip(state, tmp_path), state)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (object(), "object"),
        (torch.nn.Linear(1, 1), "Linear"),
        (np.array([object()]), "an array of object: save its tolist"),
        (np.array(["text"]), "an array of <U4"),
        (np.arange(3, dtype=">i4"), "convert it to plain numbers"),
        (torch.eye(2).to_sparse(), "dense"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_the_call(value, word, tmp_path):
    with AsyncCheckpointSaver() as saver, pytest.raises(TypeError, match=word):
        saver.save_async({"a": {"b": value}}, tmp_path / "c.pt")


@pytest.mark.parametrize("compress", FORMS)
def test_single_keys_are_read_alone(compress, tmp_path):
    state = {"a": {"b": torch.ones(2), "c": 1}, "d": 2, "e.f": torch.zeros(3)}
    with AsyncCheckpointSaver() as saver:
        path = saver.save_async(state, tmp_path / "c.pt", compress)
    assert same(load_checkpoint(path, keys=["a"]), {"a": state["a"]})
    assert same(load_checkpoint(path, keys=["a.b", "d"]), {"a": {"b": torch.ones(2)}, "d": 2})
    assert same(load_checkpoint(path, keys=["e.f"]), {"e.f": torch.zeros(3)})
    with pytest.raises(KeyError, match="modle"):
        load_checkpoint(path, keys=["modle"])


def test_int8_and_bf16_moments_are_near_and_everything_else_exact(tmp_path):
    state = training_state()
    for moments, error in (("int8", 1 / 16), ("bf16", 1 / 256)):
        loaded = round_trip(state, tmp_path, moments=moments)
        assert same(loaded["model"], state["model"]) and same(loaded["rng"], state["rng"])
        for i, slots in state["optimizer"]["state"].items():
            other = loaded["optimizer"]["state"][i]
            assert same(other["step"], slots["step"])
            assert torch.all((other["exp_avg_sq"] - slots["exp_avg_sq"]).abs() <= error * slots["exp_avg_sq"].abs())
            assert torch.all((other["exp_avg"] - slots["exp_avg"]).abs() <= error * slots["exp_avg"].abs())


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 100), st.integers(-30, 30))
def test_rounded_moments_are_near_keep_their_sign_and_stay_put(count, seed, exponent):
    values = (np.random.default_rng(seed).standard_normal(count) * 2.0**exponent).astype(np.float32)
    values[::7] = 0
    buffer = Staging().snapshot(flatten({"exp_avg": torch.from_numpy(values)})[1])
    host = buffer.fetch()[: values.nbytes]
    round_moments(buffer.layout, host, 3)
    once = host.view(np.float32).copy()
    assert np.all(np.abs(once - values) <= np.abs(values) / 16) and np.all(np.signbit(once) == np.signbit(values))
    assert np.all((once == 0) == (values == 0))
    round_moments(buffer.layout, host, 3)
    assert np.array_equal(host.view(np.float32), once)


def test_moments_that_are_not_finite_stay_as_they_are(tmp_path):
    broken = torch.tensor([0xFFFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 1], dtype=torch.uint32)
    loaded = round_trip({"exp_avg": broken.view(torch.float32)}, tmp_path, moments="int8")["exp_avg"]
    assert loaded.view(torch.uint32).tolist() == [0xFFFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000, 0x7F800000, 0]


@pytest.mark.parametrize("value", [np.zeros(1), np.float32(2), b"x"], ids=repr)
def test_what_a_torch_file_would_not_give_back_is_refused(value, tmp_path):
    with AsyncCheckpointSaver() as saver, pytest.raises(TypeError, match=r"\['a'\] is a .*compress=True"):
        saver.save_async({"a": value}, tmp_path / "c.pt", False)
    assert same(round_trip({"a": value}, tmp_path), {"a": value})


MAPS = {
    "a name": "meta",
    "a device": torch.device("meta"),
    "a dict": {"cpu": "meta"},
    "another dict": {"cuda:0": "cpu"},
    "a function": lambda storage, saved: storage,
    "a function for some": lambda storage, saved: None,
    "none": None,
}


@pytest.mark.parametrize("name", MAPS)
def test_map_location_is_that_of_torch_load(name, tmp_path):
    data = torch.arange(6.0)
    state = {"a": data, "b": data[2:4]}
    plain = tmp_path / "plain.pt"
    torch.save({"a": data, "b": data[2:4]}, plain)
    with AsyncCheckpointSaver() as saver:
        files = [saver.save_async(state, tmp_path / f"{compress}.pt", compress) for compress in FORMS]
    want = torch.load(plain, map_location=MAPS[name], weights_only=True)
    for file in files:
        again = load_checkpoint(file, map_location=MAPS[name])
        assert [again[k].device for k in "ab"] == [want[k].device for k in "ab"]
        if want["a"].device.type == "cpu":
            assert torch.equal(again["a"], data) and torch.equal(again["b"], data[2:4])
            again["a"][2] = 9
            assert again["b"][0] == 9  # they share their memory again


@pytest.mark.parametrize("compress", [True, False])
def test_a_wrong_map_location_is_not_damage(compress, tmp_path):
    with AsyncCheckpointSaver() as saver:
        path = saver.save_async({"a": torch.ones(2)}, tmp_path / "c.pt", compress)
    for place, word in [
        (5, "map_location=5: a tensor of cpu cannot be put there"),
        ("gpu", "map_location='gpu': .*tagged with gpu"),
        (lambda storage, saved: 1 / 0, "ZeroDivisionError"),
    ]:
        with pytest.raises(CheckpointError, match=word) as caught:
            load_checkpoint(path, map_location=place)
        assert not isinstance(caught.value, CorruptCheckpointError)
