"""What is saved comes back, completely or in part, bit for bit."""

import threading

import numpy as np
import pytest
import torch
from helpers.states import same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rollout_worlds import batches, world
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict

from slipstream import RolloutStorage
from slipstream.rollouts import file as rollout_file

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def storage(tmp_path):
    with RolloutStorage(tmp_path / "rollouts") as made:
        yield made


@quick
@given(batches(), st.sampled_from([0, 1, 9, 12]), st.sampled_from([64, 1 << 18]))
def test_any_batch_comes_back_bit_for_bit(tmp_path_factory, batch, level, piece_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollout_file, "PIECE_BYTES", piece_bytes)
        with RolloutStorage(tmp_path_factory.mktemp("r"), level) as storage:
            storage.save(batch, 7)
            assert same(batch, storage.load(7))
            assert list(storage.file(7).problems()) == []


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
@given(batches(), indices, indices, st.sampled_from([64, 1 << 18]))
def test_a_slice_is_what_indexing_all_of_it_gives(tmp_path_factory, batch, envs, steps, piece_bytes):
    lead = tuple(batch.batch_size)
    size = {"envs": lead[0] if len(lead) == 2 else 1, "steps": lead[-1]}
    chosen = {}
    for name, index in (("envs", envs), ("steps", steps)):
        if isinstance(index, int | list):
            index = [i for i in ([index] if isinstance(index, int) else index) if -size[name] <= i < size[name]]
        chosen[name] = None if name == "envs" and len(lead) == 1 else index
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollout_file, "PIECE_BYTES", piece_bytes)
        with RolloutStorage(tmp_path_factory.mktemp("r")) as storage:
            storage.save(batch, 0)
            got = storage.load_slice(0, **chosen)
    rows = {
        name: np.arange(size[name])[slice(None) if chosen[name] is None else chosen[name]].astype(np.int64)
        for name in size
    }
    tensors = batch.exclude("task")
    expected = tensors[rows["envs"]][:, rows["steps"]] if len(lead) == 2 else tensors[rows["steps"]]
    assert same(expected, got)


def test_dicts_keep_arrays_numbers_strings_and_lists(storage):
    batch = {
        "reward": torch.rand(4, 6),
        "observation": {
            "image": np.arange(4 * 6 * 9, dtype=np.uint8).reshape(4, 6, 3, 3),
            "phase": np.full((4, 6), 1.5 + 2j),
        },
        "task": "navigation",
        "seeds": [1, 2**70, float("inf"), (None, b"\x00\xff", 1 + 2j)],
        "nested": {"empty": {}, 3: np.float32(1.5), "plain": {"a": True}},
    }
    storage.save(batch, 3)
    assert same(batch, storage.load(3))
    part = storage.load_slice(3, envs=[1, 2], steps=slice(2, 5))
    assert torch.equal(part["reward"], batch["reward"][1:3, 2:5])
    assert np.array_equal(part["observation"]["image"], batch["observation"]["image"][1:3, 2:5])
    assert list(part) == ["reward", "observation"]
    more = batch | {"weights": torch.rand(1000), "nothing": torch.empty(0, 3), "scalar": torch.tensor(2.5)}
    storage.save(more, 4)
    assert same(more, storage.load(4))
    with pytest.raises(ValueError, match="save a TensorDict of that batch size"):
        storage.load_slice(4, envs=1)


def test_tensordicts_of_strings_and_other_kinds(storage):
    batch = TensorDict({"x": torch.arange(6).reshape(2, 3), "label": NonTensorData("a", batch_size=[2, 3])}, [2, 3])
    batch["inner"] = TensorDict({"y": torch.zeros(2, 3, 4)}, [2, 3, 4])
    storage.save(batch, 0)
    got = storage.load(0)
    assert same(batch, got) and got["inner"].batch_size == torch.Size([2, 3, 4])
    lazy = LazyStackedTensorDict(*[TensorDict({"x": torch.ones(3) * i}, [3]) for i in range(2)], stack_dim=0)
    storage.save(lazy, 1)
    assert torch.equal(storage.load(1)["x"], lazy["x"])


@pytest.mark.parametrize("alias", [True, False])
def test_successors_are_stored_once_as_views_or_copies(storage, alias):
    batch = world(64, 32, alias=alias)
    storage.save(batch, 0)
    stored = {column.key: column.envs * column.steps for column in storage.file(0).columns}
    assert stored["next", "observation", "x"] == 64 and stored["observation", "x"] == 64 * 32
    assert same(batch, storage.load(0))
    assert same(batch[5:7][:, 3:9], storage.load_slice(0, envs=[5, 6], steps=range(3, 9)))
    after = storage.load(0, keys=[("next", "observation")])
    assert list(after.keys()) == ["next"]
    assert torch.equal(after["next", "observation", "x"], batch["next", "observation", "x"])


def test_where_an_episode_ends_the_successor_is_its_own(storage):
    batch = world(8, 20, alias=False)
    batch["next", "observation", "x"][batch["done"]] = -7.0
    storage.save(batch, 0)
    ends = batch["done"].clone()
    ends[:, -1] = True
    assert storage.file(0).columns[-1].steps == int(ends.sum())
    assert same(batch, storage.load(0))
    assert same(batch[3:4][:, 2:11], storage.load_slice(0, 3, slice(2, 11)))
    batch["next", "observation", "x"] = torch.rand(8, 20, 40)  # something else
    storage.save(batch, 1)
    assert storage.file(1).columns[-1].base is None and same(batch, storage.load(1))


def test_the_batch_is_kept_as_it_was_at_the_call(storage):
    batch = world(64, 32)
    before = batch.clone()
    for i in range(3):
        storage.save(batch, i)
        batch["reward"] += 1  # as a collector that fills the same memory again
        batch["observation", "x"].zero_()
    assert same(before, storage.load(0))
    assert torch.equal(storage.load(2)["reward"], before["reward"] + 2)


def test_saved_batches_are_read_at_once_listed_and_replaced(storage):
    assert storage.iterations() == []
    for i in (12, 3, 1_000_000):
        storage.save(world(first=i % 7), i)
    assert storage.iterations() == [3, 12, 1_000_000]
    storage.save(world(first=100), 12)
    assert [i for i, batch in storage if same(batch, world(first=100))] == [12]
    with pytest.raises(FileNotFoundError, match="3 others, from 3 to 1000000"):
        storage.load(5)
    with pytest.raises(ValueError, match="0 or more"):
        storage.save(world(), -1)


def test_the_files_written_last_are_kept(tmp_path):
    folder = tmp_path / "rollouts"
    with RolloutStorage(folder, keep=3) as storage:
        for i in (90, 95, 100, 5):  # resumed from an early checkpoint: a low number is not an old file
            storage.save(world(), i)
            storage.wait()
        assert storage.iterations() == [5, 95, 100]
        (folder / "rollout_000001.slip").mkdir()
        (folder / "rollout_000002.slip").symlink_to("nowhere")
        storage.save(world(), 6)
        storage.wait()
    assert sorted(p.name[8:14] for p in folder.glob("rollout_*")) == ["000001", "000002", "000005", "000006", "000100"]


@pytest.mark.parametrize("keep", [1.5, -1, None])
def test_the_number_of_files_kept_is_an_integer(tmp_path, keep):
    with pytest.raises(ValueError, match="must be a whole number"):
        RolloutStorage(tmp_path, keep=keep)


@pytest.mark.parametrize(("storage_option", "save_option"), [(True, False), (False, True)])
def test_the_ratio_is_printed(tmp_path, capsys, storage_option, save_option):
    with RolloutStorage(tmp_path, verbose=storage_option) as storage:
        storage.save({"x": torch.zeros(4, 1 << 18)}, 1, verbose=save_option)
    line = capsys.readouterr().out
    assert "rollout_000001.slip: 4.19 MB as 0.0" in line and "x smaller" in line


def test_only_the_pieces_asked_for_are_read(storage, monkeypatch):
    batch = TensorDict({"lidar": torch.rand(64, 32, 144)}, [64, 32])
    storage.save(batch, 0)
    file, read = storage.file(0), []
    section = file.container.section
    monkeypatch.setattr(file.container, "section", lambda number: read.append(number) or section(number))
    got = file.read_slice(envs=[9, 30], steps=slice(4, 8))
    assert torch.equal(got["lidar"], batch["lidar"][[9, 30], 4:8])
    assert read == [9 // 14, 30 // 14]  # 14 environments of 18 KB are a piece


def test_keys_are_chosen_by_name_branch_or_dots(storage):
    batch = world()
    storage.save(batch, 0)
    for keys in ("observation", [("observation", "x")], ["observation.x"]):
        assert same(batch.select("observation"), storage.load(0, keys=keys))
    with pytest.raises(KeyError, match=r"no 'observatoin.x' here; there are .*did you mean observation.x"):
        storage.load(0, keys=["observatoin.x"])
    with pytest.raises(IndexError, match="envs=6 does not fit the 6"):
        storage.load_slice(0, envs=6)


def test_what_cannot_be_saved_is_refused_at_the_call(storage):
    with pytest.raises(TypeError, match=r"\['x'\] is a builtins.object"):
        storage.save({"x": object()}, 0)
    with pytest.raises(TypeError, match="TensorDict or a dict"):
        storage.save([1], 0)
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
