import os

import pytest
import torch
from helpers.states import same, training_state

from slipstream import format_checkpoint_name, get_model_size, print_model_info
from slipstream.checkpoint import AsyncCheckpointSaver, CheckpointError, load_checkpoint


def names(folder):
    return sorted(p.name for p in folder.iterdir())


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
    for i, name in enumerate(("c.pt.slip", "c.pt", "c.pt.lz4")):
        os.utime(tmp_path / name, (i + 1, i + 1))
    with pytest.warns(UserWarning, match="several forms"):
        assert load_checkpoint(tmp_path / "c.pt") == {"i": 1}
    assert load_checkpoint(tmp_path / "c.pt.slip") == {"i": 0}


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


def test_differences_are_between_numbered_files_of_a_series(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(full_every=10) as saver:
        paths = [saver.save_async(state, tmp_path / name) for name in ("a_1.pt", "a_2.pt", "best.pt", "b_1.pt")]
        saver.wait()
        assert saver.get_stats()["differences"] == 1
    sizes = [path.stat().st_size for path in paths]
    assert sizes[1] < min(sizes[0], *sizes[2:]) / 2
    assert all(same(load_checkpoint(path), state) for path in paths)


def test_a_difference_is_not_taken_against_a_file_that_is_gone(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(full_every=10) as saver:
        first = saver.save_async(state, tmp_path / "c_1.pt")
        saver.wait()
        first.unlink()
        saver.save_async(state, tmp_path / "c_2.pt")
    assert same(load_checkpoint(tmp_path / "c_2.pt"), state)


def test_a_torch_file_of_before_1_6_is_refused_with_the_remedy(tmp_path):
    torch.save({"w": torch.ones(3)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"before version 1\.6.*save it again with torch\.save"):
        load_checkpoint(tmp_path / "old.pt")


@pytest.mark.parametrize("name", ["", "..", "a/", "there", "x\0y"])
def test_a_path_that_names_no_file_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    with AsyncCheckpointSaver() as saver, pytest.raises(ValueError, match="names no file"):
        saver.save_async({"a": 1}, name)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("given", [{"path": None}, {"path": b"c.pt"}, {"metrics": {1: 2.0}}, {"step": "5"}], ids=str)
def test_arguments_of_a_wrong_type_are_refused_at_the_call(given, tmp_path):
    with AsyncCheckpointSaver() as saver, pytest.raises(TypeError):
        saver.save_async({"a": 1}, **{"path": tmp_path / "c.pt", **given})
    assert not list(tmp_path.iterdir())


WRONG = [
    {"queue_policy": "never"},
    {"full_every": 0},
    {"moments": "int4"},
    {"compression_level": 17},
    {"keep_last": True},
]


@pytest.mark.parametrize("options", [*WRONG, {"max_queue_size": 2.5}], ids=str)
def test_settings_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError):
        AsyncCheckpointSaver(**options)


@pytest.mark.parametrize("level", [1, 16])
@pytest.mark.parametrize("compress", [True, "lz4"])
def test_every_level_of_the_documents_works(level, compress, tmp_path):
    state = {"w": torch.randn(5000), "zeros": torch.zeros(5000)}
    with AsyncCheckpointSaver(compression_level=level) as saver:
        path = saver.save_async(state, tmp_path / "c.pt", compress)
    assert same(load_checkpoint(path), state)


def test_statistics_count_bytes_files_and_times(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(full_every=3) as saver:
        for i in range(4):
            saver.save_async(state, tmp_path / f"c_{i}.pt")
        saver.wait()
        stats = saver.get_stats()
    assert [stats[name] for name in ("total_saved", "full", "differences", "dropped", "queue_size")] == [4, 2, 2, 0, 0]
    assert stats["bytes_out"] == sum(p.stat().st_size for p in tmp_path.glob("c_*"))
    assert stats["compression_ratio"] == stats["bytes_in"] / stats["bytes_out"]
    assert 0 < stats["blocking_ms_median"] <= stats["blocking_ms_p99"]


def test_names_and_sizes(capsys):
    assert format_checkpoint_name(1000) == "checkpoint_1000.pt"
    named = format_checkpoint_name("final", prefix="nav", suffix=".ckpt", directory="runs")
    assert named == os.path.join("runs", "nav_final.ckpt")
    model = torch.nn.Linear(10, 4)
    assert 44 in get_model_size(model).values()
    print_model_info(model, name="Drone")
    shown = capsys.readouterr().out
    assert "Drone" in shown and "44" in shown
