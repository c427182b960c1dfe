import pytest
import torch
from saved_states import same, training_state

from slipstream.checkpoint import AsyncCheckpointSaver, CheckpointError, load_checkpoint


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_buffers_are_reused_and_snapshots_stay_apart(tmp_path):
    weight = torch.zeros(1000)
    with AsyncCheckpointSaver() as saver:
        for i in range(12):
            weight.fill_(i)
            saver.save_async({"w": weight}, tmp_path / f"c_{i}.pt")
    assert [load_checkpoint(tmp_path / f"c_{i}.pt")["w"][0].item() for i in range(12)] == list(range(12))


def test_files_are_named_by_their_form(tmp_path):
    with AsyncCheckpointSaver() as saver:
        saver.save_async({}, tmp_path / "a.pt")
        saver.save_async({}, tmp_path / "b.pt", compress="lz4")
        saver.save_async({}, tmp_path / "c.pt", compress=False)
        saver.save_async({}, tmp_path / "d.pt.slip")
    assert names(tmp_path) == ["a.pt.slip", "b.pt.lz4", "c.pt", "d.pt.slip"]
    assert (tmp_path / "a.pt.slip").stat().st_mode & 0o777 == (tmp_path / "c.pt").stat().st_mode & 0o777


def test_the_newest_form_is_taken_with_a_warning(tmp_path):
    with AsyncCheckpointSaver() as saver:
        for i, compress in enumerate((True, "lz4", False)):
            saver.save_async({"i": i}, tmp_path / "c.pt", compress)
    import os

    for i, name in enumerate(("c.pt.slip", "c.pt", "c.pt.lz4")):
        os.utime(tmp_path / name, (i + 1, i + 1))
    with pytest.warns(UserWarning, match="several forms"):
        assert load_checkpoint(tmp_path / "c.pt") == {"i": 1}
    assert load_checkpoint(tmp_path / "c.pt.slip") == {"i": 0}


def test_statistics_count_bytes_files_and_times(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(full_every=3) as saver:
        for i in range(4):
            saver.save_async(state, tmp_path / f"c_{i}.pt")
        saver.wait()
        stats = saver.get_stats()
        saver.save_async(state, tmp_path / "plain" / "best.pt", compress=False)
        saver.wait()
        with_plain = saver.get_stats()
    assert (stats["total_saved"], stats["full"], stats["differences"], stats["dropped"], stats["queue_size"]) == (
        4,
        2,
        2,
        0,
        0,
    )
    assert stats["bytes_out"] == sum(p.stat().st_size for p in tmp_path.glob("c_*"))
    assert stats["compression_ratio"] == stats["bytes_in"] / stats["bytes_out"] == with_plain["compression_ratio"]
    assert with_plain["bytes_out"] > stats["bytes_out"]
    assert 0 < stats["blocking_ms_median"] <= stats["blocking_ms_p99"]


def test_shutdown_twice_is_fine_and_saving_after_it_is_not(tmp_path):
    saver = AsyncCheckpointSaver()
    saver.shutdown()
    saver.shutdown()
    with pytest.raises(CheckpointError, match="shut down"):
        saver.save_async({}, tmp_path / "c.pt")


def test_an_error_in_the_block_is_not_hidden_by_the_savers(tmp_path):
    with pytest.raises(ZeroDivisionError) as info, AsyncCheckpointSaver() as saver:
        saver.save_async({}, tmp_path / "a" / "c.pt")
        saver.wait()
        (tmp_path / "a" / "c.pt.slip").unlink()
        (tmp_path / "a").rmdir()
        saver.save_async({}, tmp_path / "a" / "d.pt")
        raise ZeroDivisionError
    assert "d.pt" in info.value.__notes__[0]


def test_a_vanished_folder_is_told_and_saving_goes_on_once_it_is_back(tmp_path):
    folder = tmp_path / "run"
    with AsyncCheckpointSaver() as saver:
        first = saver.save_async({"i": 0}, folder / "c_0.pt")
        saver.wait()
        first.unlink()
        folder.rmdir()
        saver.save_async({"i": 1}, folder / "c_1.pt")
        with pytest.raises(CheckpointError, match="c_1"):
            saver.wait()
        folder.mkdir()
        saver.save_async({"i": 2}, folder / "c_2.pt")
    assert load_checkpoint(folder / "c_2.pt") == {"i": 2}


def test_differences_are_taken_between_the_numbered_files_of_a_series(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(full_every=10) as saver:
        paths = [saver.save_async(state, tmp_path / name) for name in ("a_1.pt", "a_2.pt", "best.pt", "b_1.pt")]
        saver.wait()
        assert saver.get_stats()["differences"] == 1
    sizes = [path.stat().st_size for path in paths]
    assert sizes[1] < min(sizes[0], *sizes[2:]) / 2
    assert all(same(load_checkpoint(path), state) for path in paths)


def test_a_difference_names_its_base_where_that_was_written_over(tmp_path):
    with AsyncCheckpointSaver(full_every=10) as saver:
        for number, name in enumerate(("c_1.pt", "c_2.pt", "c_1.pt")):
            saver.save_async({**training_state(), "number": number}, tmp_path / name)
            saver.wait()
        with pytest.raises(CheckpointError, match=r"needs c_1.pt.slip: it is damaged, or another checkpoint"):
            load_checkpoint(tmp_path / "c_2.pt")


def test_a_difference_is_not_taken_against_a_file_that_is_gone(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(full_every=10) as saver:
        first = saver.save_async(state, tmp_path / "c_1.pt")
        saver.wait()
        first.unlink()
        saver.save_async(state, tmp_path / "c_2.pt")
    assert same(load_checkpoint(tmp_path / "c_2.pt"), state)


def test_other_tensors_make_a_complete_file(tmp_path):
    with AsyncCheckpointSaver(full_every=10) as saver:
        saver.save_async({"a": torch.ones(100)}, tmp_path / "c_1.pt")
        saver.save_async({"a": torch.ones(101)}, tmp_path / "c_2.pt")
        saver.wait()
        assert saver.get_stats()["full"] == 2


@pytest.mark.parametrize(
    "options",
    [
        {"queue_policy": "never"},
        {"full_every": 0},
        {"moments": "int4"},
        {"compression_level": 17},
        {"keep_last": 0},
        {"keep_last": 1.5},
        {"keep_last": True},
        {"max_queue_size": 2.5},
    ],
)
def test_settings_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError):
        AsyncCheckpointSaver(**options)


def test_checkpoints_of_plain_torch_load(tmp_path):
    state = {"w": torch.ones(3), "n": 1}
    torch.save(state, tmp_path / "new.pt")
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert same(load_checkpoint(tmp_path / "new.pt"), state)
    with pytest.raises(CheckpointError, match=r"before version 1\.6.*save it again with torch\.save"):
        load_checkpoint(tmp_path / "old.pt")


@pytest.mark.parametrize("name", ["", ".", "..", "a/", "a/..", "there", "x\0y"])
def test_a_path_that_names_no_file_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    with AsyncCheckpointSaver() as saver, pytest.raises(ValueError, match="names no file"):
        saver.save_async({"a": 1}, name)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    "options, word",
    [
        ({"path": None}, "path of a checkpoint"),
        ({"path": 5}, "path of a checkpoint"),
        ({"path": b"c.pt"}, "path of a checkpoint"),
        ({"metrics": {1: 2.0}}, "metrics must be"),
        ({"metrics": [1]}, "metrics must be"),
        ({"step": "5"}, "integer"),
        ({"step": 1.5}, "integer"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused_at_the_call(options, word, tmp_path):
    with AsyncCheckpointSaver() as saver, pytest.raises(TypeError, match=word):
        saver.save_async({"a": 1}, **{"path": tmp_path / "c.pt", **options})
    assert not list(tmp_path.iterdir())
