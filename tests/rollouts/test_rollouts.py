"""What is saved comes back, whole or in part, bit for bit."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rollout_worlds import DTYPES, batches, random_tensor, same, world
from tensordict import LazyStackedTensorDict, NonTensorStack, TensorDict

from slipstream import RolloutStorage
from slipstream.rollouts.columns import Geometry
from slipstream.rollouts.reader import RolloutFile
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec.registry import read_header

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def storage(tmp_path):
    with RolloutStorage(tmp_path / "rollouts", threads=1) as made:
        yield made


@quick
@given(batches(), st.sampled_from([0, 1, 9, 12]))
def test_any_batch_comes_back_bit_for_bit(tmp_path_factory, batch, level):
    with RolloutStorage(tmp_path_factory.mktemp("r"), level, threads=1) as storage:
        storage.save(batch, 7)
        assert same(batch, storage.load(7))
        assert list(storage.file(7).damaged()) == []


indices = st.one_of(
    st.none(),
    st.integers(-4, 3),
    st.builds(
        slice,
        st.none() | st.integers(-5, 5),
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from([1, 2, -1, 3]),
    ),
    st.lists(st.integers(-4, 3), max_size=4),
)


@quick
@given(batches(), indices, indices)
def test_a_slice_is_what_indexing_the_whole_gives(tmp_path_factory, batch, envs, steps):
    lead = tuple(batch.batch_size)
    size = {"envs": lead[0] if len(lead) == 2 else 1, "steps": lead[-1]}
    chosen = {}
    for name, index in (("envs", envs), ("steps", steps)):
        if isinstance(index, int | list):
            index = [i for i in ([index] if isinstance(index, int) else index) if -size[name] <= i < size[name]]
        chosen[name] = None if name == "envs" and len(lead) == 1 else index
    with RolloutStorage(tmp_path_factory.mktemp("r"), threads=1) as storage:
        storage.save(batch, 0)
        got = storage.load_slice(0, **chosen)
    rows = {
        name: np.arange(size[name])[slice(None) if chosen[name] is None else chosen[name]].astype(np.int64)
        for name in size
    }
    expected = batch[rows["envs"]][:, rows["steps"]] if len(lead) == 2 else batch[rows["steps"]]
    assert same(expected, got)


def test_dtypes_one_by_one(storage):
    batch = {str(d): random_tensor((3, 8, 2), d, 1) for d in DTYPES} | {
        f"0-d {d}": random_tensor((), d, 2) for d in DTYPES
    }
    storage.save(batch, 0)
    assert same(batch, storage.load(0))


def test_dicts_keep_arrays_numbers_strings_and_what_has_no_steps(storage):
    batch = {
        "reward": torch.rand(4, 6),
        "observation": {
            "image": np.arange(4 * 6 * 9, dtype=np.uint8).reshape(4, 6, 3, 3),
            "names": np.full((4, 6), "héé"),
        },
        "weights": torch.rand(1000),
        "nothing": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
        "task": "navigation",
        "seeds": [1, 2**70, float("inf"), (None, b"\x00\xff", 1 + 2j)],
        "nested": {"empty": {}, 3: np.float32(1.5), "plain": {"a": True}},
    }
    storage.save(batch, 3)
    assert same(batch, storage.load(3))
    part = storage.load_slice(3, envs=[1, 2], steps=slice(2, 5))
    assert torch.equal(part["reward"], batch["reward"][1:3, 2:5])
    assert np.array_equal(part["observation"]["image"], batch["observation"]["image"][1:3, 2:5])
    assert same(part["weights"], batch["weights"]) and part["seeds"] == batch["seeds"]


def test_tensordicts_of_strings_and_other_kinds(storage):
    batch = TensorDict(
        {"x": torch.arange(6).reshape(2, 3), "label": NonTensorStack.from_list([["a", "b", "c"], ["d", "e", "f"]])},
        [2, 3],
    )
    inner = TensorDict({"y": torch.zeros(2, 3, 4)}, [2, 3, 4])
    batch["inner"] = inner
    storage.save(batch, 0)
    got = storage.load(0)
    assert same(batch, got) and got["inner"].batch_size == torch.Size([2, 3, 4])
    assert storage.load_slice(0, envs=1, steps=[2, 0])["label"] == [["f", "d"]]
    lazy = LazyStackedTensorDict(*[TensorDict({"x": torch.ones(3) * i}, [3]) for i in range(2)], stack_dim=0)
    storage.save(lazy, 1)
    assert torch.equal(storage.load(1)["x"], lazy["x"])


@pytest.mark.parametrize("alias", [True, False])
def test_successors_are_stored_once_whether_they_are_views_or_copies(storage, alias):
    batch = world(64, 32, alias=alias)
    storage.save(batch, 0)
    file = storage.file(0)
    own = {column.key: column.geometry.frames for column in file.columns}
    assert own["next", "observation", "x"] == 64 and own["observation", "x"] == 64 * 32
    assert same(batch, storage.load(0))
    assert same(batch[5:7][:, 3:9], storage.load_slice(0, envs=[5, 6], steps=range(3, 9)))
    after = storage.load(0, keys=[("next", "observation")])
    assert list(after.keys()) == ["next"] and torch.equal(
        after["next", "observation", "x"], batch["next", "observation", "x"]
    )


def test_where_an_episode_ends_the_successor_is_its_own(storage):
    batch = world(8, 20, alias=False)
    batch["next", "observation", "x"][batch["done"]] = -7.0
    storage.save(batch, 0)
    ends = batch["done"].clone()
    ends[:, -1] = True
    assert storage.file(0).columns[-1].geometry.frames == int(ends.sum())
    assert same(batch, storage.load(0))
    assert same(batch[3:4][:, 2:11], storage.load_slice(0, 3, slice(2, 11)))


def test_a_next_that_is_something_else_is_stored_whole(storage):
    batch = world(4, 8, alias=False)
    batch["next", "observation", "x"] = torch.rand(4, 8, 40)
    storage.save(batch, 0)
    assert storage.file(0).columns[-1].follows is None and same(batch, storage.load(0))


def test_the_batch_is_kept_as_it_was_at_the_call(storage):
    batch = world(64, 32)
    before = batch.clone()
    for i in range(3):
        storage.save(batch, i)
        batch["reward"] += 1  # as a collector that fills the same memory again
        batch["observation", "x"].zero_()
    assert same(before, storage.load(0))
    assert torch.equal(storage.load(2)["reward"], before["reward"] + 2)


def test_what_was_saved_can_be_read_at_once_listed_and_replaced(storage):
    assert storage.iterations() == [] and len(storage) == 0
    for i in (12, 3, 1_000_000):
        storage.save(world(first=i % 7), i)
    assert storage.iterations() == [3, 12, 1_000_000] and 12 in storage and 4 not in storage
    storage.save(world(first=100), 12)
    assert [i for i, batch in storage if same(batch, world(first=100))] == [12]
    with pytest.raises(FileNotFoundError, match="3 others, from 3 to 1000000"):
        storage.load(5)
    with pytest.raises(ValueError, match="0 or more"):
        storage.save(world(), -1)


def test_the_files_written_last_are_kept(tmp_path):
    folder = tmp_path / "rollouts"
    with RolloutStorage(folder, keep=3, threads=1) as storage:
        for i in (90, 95, 100, 5):  # resumed from an early checkpoint: a low number is not an old file
            storage.save(world(), i)
            storage.wait()
        assert storage.iterations() == [5, 95, 100]
        (folder / "rollout_000001.slip").mkdir()
        (folder / "rollout_000002.slip").symlink_to("nowhere")
        storage.save(world(), 6)
        storage.wait()
    assert sorted(p.name[8:14] for p in folder.glob("rollout_*")) == ["000001", "000002", "000005", "000006", "000100"]


def test_only_the_groups_asked_for_are_opened(storage, monkeypatch):
    batch = TensorDict({"lidar": torch.rand(64, 32, 144)}, [64, 32])
    storage.save(batch, 0)
    file = storage.file(0)
    opened = []
    reader = file._reader(0)
    gather = reader._coder.gather
    monkeypatch.setattr(reader._coder, "gather", lambda *a: (opened.append(a[4]), gather(*a)))
    got = storage.load_slice(0, envs=9, steps=slice(4, 8))
    assert torch.equal(got["lidar"], batch["lidar"][9:10, 4:8])
    assert [rows.tolist() for rows in opened] == [[9 * 32 + t for t in range(4, 8)]]
    assert file.columns[0].geometry.group == 32  # one environment's steps: opening four of them opens no other's


def test_the_blocks_are_those_of_replay(storage):
    frames = (torch.arange(16 * 32 * 300) % 7).to(torch.float32).reshape(16, 32, 300)
    path = storage.save(TensorDict({"x": frames}, [16, 32]), 0)
    storage.wait()
    blocks = RolloutFile(path).blocks(0)
    header = read_header(blocks[0])
    with BlockColumn((300,), "f4", group=header.group, block_rows=header.block_rows) as column:
        for block in blocks:
            column.add_block(block)
        out = np.empty((16 * 32, 300), np.float32)
        column.gather(np.arange(16 * 32), out)
    assert np.array_equal(out, frames.reshape(-1, 300).numpy())


@given(st.integers(1, 5000), st.integers(1, 70_000), st.sampled_from([1, 2, 4, 8]), st.integers(1, 1000))
def test_groups_and_blocks_fit_any_frame(frames, frame_bytes, itemsize, steps):
    g = Geometry.plan(frames, max(1, frame_bytes // itemsize), f"numpy:<i{itemsize}", steps)
    assert g.block_rows % g.group == 0 and g.rows * g.span >= frames > (g.rows - 1) * g.span
    assert g.coder().block_rows == g.block_rows


@pytest.mark.parametrize(("shapes", "lead"), [
    ({"reward": (5, 7), "x": (5, 7, 3)}, (5, 7)),
    ({"reward": (9,), "x": (9, 3)}, (9,)),
    ({"reward": (9, 1), "x": (9, 3)}, (9,)),
    ({"reward": (9, 1), "x": (9, 1, 3)}, (9, 1)),
    ({"x": (4, 6, 2), "y": (4, 6)}, (4, 6)),
    ({"x": (4, 6), "y": (4, 5)}, (4,)),
    ({"x": (4,), "y": (5,)}, ()),
    ({"reward": (5, 7), "start": (5, 3)}, (5, 7)),
])  # fmt: skip
def test_a_dicts_leading_dimensions_are_found(storage, shapes, lead):
    storage.save({name: torch.zeros(shape) for name, shape in shapes.items()}, 0)
    assert storage.file(0).lead == lead


def test_a_dict_of_many_tensors_some_learning_some_there_twice(storage):
    twice = torch.arange(12.0).reshape(4, 3)
    many = {f"x{i}": torch.full((4, 3), float(i)) for i in range(1100)}
    storage.save({"weights": torch.ones(4, 3, requires_grad=True) * 2, "a": twice, "b": twice, **many}, 0)
    got = storage.load(0)
    assert torch.equal(got["weights"], torch.full((4, 3), 2.0)) and not got["weights"].requires_grad
    assert torch.equal(got["a"], twice) and torch.equal(got["b"], twice)
    assert all(torch.equal(got[name], value) for name, value in many.items())


def test_keys_are_chosen_by_name_branch_or_dots(storage):
    batch = world()
    storage.save(batch, 0)
    for keys in ("observation", [("observation", "x")], ["observation.x"]):
        assert same(batch.select("observation"), storage.load(0, keys=keys))
    with pytest.raises(KeyError, match="no 'observatoin' here; there are"):
        storage.load(0, keys=["observatoin"])
    with pytest.raises(IndexError, match="envs=6 does not fit the 6"):
        storage.load_slice(0, envs=6)


def test_random_slices_are_runs_of_the_batches(storage):
    for i in range(5):
        storage.save(world(6, 16, first=16 * i), i)
    storage.save(world(6, 4, first=80), 5)  # too short for runs of 8
    runs = storage.slices(8, keys=["observation", "reward", ("next", "observation")], seed=1)
    assert len(runs) == 5 * 6 * 9
    every = runs.take(np.arange(len(runs)))
    assert len(set(map(tuple, every["reward"].tolist()))) == len(runs)
    drawn = runs.sample(200)
    t, env = drawn["reward"] // 1000, drawn["reward"] % 1000
    assert (t.diff(dim=1) == 1).all() and (env.diff(dim=1) == 0).all()
    assert torch.equal(drawn["next", "observation", "x"][..., 0], drawn["reward"] + 1000)
    assert torch.equal(storage.slices(8, seed=1).sample(200)["reward"], drawn["reward"])
    with pytest.raises(ValueError, match="none of the 6 batches"):
        storage.slices(17)


def test_what_cannot_be_saved_is_refused_at_the_call(storage):
    for bad, why in (
        ({"x": object()}, r"\['x'\] is a builtins.object"),
        ({"x": [torch.ones(2)]}, "stack them"),
        ([1], "TensorDict or a dict"),
    ):
        with pytest.raises(TypeError, match=why):
            storage.save(bad, 0)
    with pytest.raises(TypeError, match="not a plain dense tensor"):
        storage.save({"x": torch.eye(3).to_sparse()}, 0)
    with pytest.raises(ValueError, match="compression_level is 17"):
        RolloutStorage("x", 17)
    assert storage.iterations() == []


def test_readers_and_the_writer_at_once(storage):
    wrong = []

    def read():
        for _ in range(30):
            for i in storage.iterations():
                got = storage.load_slice(i, envs=2, keys=["reward", "observation"])
                if not torch.equal(got["observation", "x"][..., 0], got["reward"]):
                    wrong.append(i)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(60):
        storage.save(world(first=i), i % 4)
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_on_a_gpu_are_copied_there_and_come_back(storage):
    batch = world(256, 32).to("cuda")
    before = batch.cpu()
    storage.save(batch, 0)
    batch["reward"].zero_()
    batch["observation", "x"].zero_()
    assert same(before, storage.load(0))
    assert storage.load(0, "cuda")["reward"].device.type == "cuda"
