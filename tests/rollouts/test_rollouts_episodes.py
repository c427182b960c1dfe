"""Episodes cut out of batches, written for others, looked at from the command line."""

import json
import sys

import numpy as np
import pytest
import torch
from helpers import warm_python
from rollout_worlds import block_place, world
from tensordict import TensorDict

from slipstream import RolloutStorage
from slipstream.cli import main as slipstream
from slipstream.cli import rollouts
from slipstream.rollouts.episodes import Piece, find_episodes, read_episode
from slipstream.rollouts.export import export
from slipstream.rollouts.reader import RolloutFile


def main(words):
    return slipstream(["rollouts", *words])


@pytest.fixture
def folder(tmp_path):
    """Three batches of 6 environments x 16 steps that follow one another, then one that does not; an episode ends every
    fifth step."""
    with RolloutStorage(tmp_path / "run" / "rollouts", threads=1) as storage:
        for i in range(3):
            storage.save(world(6, 16, first=16 * i), i, note={"frames": 96 * i})
        storage.save(world(6, 16, first=200), 100)
    return storage.save_dir


def test_episodes_are_cut_at_their_ends_and_joined_over_batches(folder):
    with RolloutStorage(folder) as storage:
        found = [e for e in find_episodes(storage) if e.pieces[0].env == 2]
        rewards = [read_episode(storage, e, ["reward"])[("reward",)] for e in found]
    times = [(r // 1000).tolist() for r in rewards]
    # 0 to 47 in fives, the last begun one cut by the gap; 200 to 215 likewise
    assert times == [
        *([*range(t, t + 5)] for t in range(0, 45, 5)),
        [45, 46, 47],
        *([*range(t, t + 5)] for t in (200, 205, 210)),
        [215],
    ]
    assert found[3].pieces == [Piece(0, 2, 15, 16), Piece(1, 2, 0, 4)]
    assert [e.ended for e in found] == [len(t) == 5 for t in times]


def test_frames_that_are_not_valid_belong_to_no_episode(tmp_path):
    batch = world(1, 8)
    batch["done"] = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 0]], dtype=torch.bool)
    batch["valid"] = torch.tensor([[1, 1, 1, 0, 1, 1, 1, 0]], dtype=torch.bool)
    batch["terminated"] = torch.tensor([[0, 0, 1, 0, 0, 0, 0, 0]], dtype=torch.bool)
    batch["truncated"] = batch["done"] & ~batch["terminated"]
    with RolloutStorage(tmp_path, threads=1) as storage:
        storage.save(batch, 0)
        found = find_episodes(storage)
    assert [(e.pieces[0].start, e.pieces[0].stop, e.terminated, e.truncated) for e in found] == [
        (0, 3, True, False),
        (4, 7, False, True),
    ]


def test_torchrls_ends_and_rewards_under_next_are_found(tmp_path):
    batch = world(2, 6)
    batch["next", "done"] = (torch.arange(6) == 2).expand(2, 6).unsqueeze(-1).clone()
    batch["next", "reward"] = torch.ones(2, 6, 1)
    batch["done"] = torch.zeros(2, 6, 1, dtype=torch.bool)
    with RolloutStorage(tmp_path, threads=1) as storage:
        storage.save(batch, 0)
        assert [len(e) for e in find_episodes(storage)] == [3, 3, 3, 3]


def test_hdf5_holds_the_batches(folder, tmp_path):
    h5py = pytest.importorskip("h5py")
    with RolloutStorage(folder) as storage:
        export(storage, "hdf5", tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert list(file) == ["rollout_000000", "rollout_000001", "rollout_000002", "rollout_000100"]
        group = file["rollout_000002"]
        assert np.array_equal(
            group["next/observation/x"][:], world(6, 16, first=32)["next", "observation", "x"].numpy()
        )
        assert json.loads(group.attrs["note"]) == {"frames": 192} and list(group.attrs["lead"]) == [6, 16]


def test_parquet_holds_a_row_a_step(folder, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    with RolloutStorage(folder) as storage:
        export(storage, "parquet", tmp_path / "out.parquet", keys=["reward", "observation", "done"])
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert (
        table.column_names == ["iteration", "env", "step", "observation.x", "reward", "done"] and len(table) == 4 * 96
    )
    row = table.slice(96 + 2 * 16 + 3, 1).to_pylist()[0]  # batch 1, environment 2, step 3: time 19
    assert (row["iteration"], row["env"], row["step"], row["reward"], row["done"]) == (1, 2, 3, 19_002.0, True)
    assert row["observation.x"] == world(6, 16, first=16)["observation", "x"][2, 3].tolist()
    assert json.loads(table.schema.field("observation.x").metadata[b"shape"]) == [40]


def test_minari_holds_the_episodes(folder, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    with RolloutStorage(folder) as storage:
        said = export(storage, "minari", tmp_path / "datasets" / "world", iterations=[0, 1, 2])
    assert "60 episodes" in said
    dataset = minari.load_dataset("world-v0")
    assert dataset.total_episodes == 60 and dataset.total_steps == 3 * 96
    episode = next(iter(dataset.iterate_episodes([0])))
    assert (
        episode.observations.shape == (6, 40) and episode.observations[5, 0] == 5000.0
    )  # with the last one's successor
    assert episode.rewards.tolist() == [0, 1000, 2000, 3000, 4000] and episode.terminations.tolist() == [False] * 4 + [
        True
    ]


def test_minari_replaces_its_own_dataset_and_nothing_else(folder, tmp_path):
    pytest.importorskip("minari")
    (tmp_path / "my-videos-v0").mkdir()
    (tmp_path / "my-videos-v0" / "holiday.mp4").write_bytes(b"x")
    with RolloutStorage(folder) as storage:
        with pytest.raises(FileExistsError, match="no Minari dataset: give another name"):
            export(storage, "minari", tmp_path / "my-videos", iterations=[0])
        for _ in range(2):
            export(storage, "minari", tmp_path / "world", iterations=[0])
    assert (tmp_path / "my-videos-v0" / "holiday.mp4").exists() and (tmp_path / "world-v0" / "data").is_dir()


def test_minari_does_not_follow_a_link(folder, tmp_path):
    pytest.importorskip("minari")
    with RolloutStorage(folder) as storage:
        export(storage, "minari", tmp_path / "elsewhere", iterations=[0])
        (tmp_path / "world-v0").symlink_to(tmp_path / "elsewhere-v0")
        with pytest.raises(FileExistsError, match="no Minari dataset"):
            export(storage, "minari", tmp_path / "world", iterations=[0])
    assert (tmp_path / "elsewhere-v0" / "data" / "main_data.hdf5").is_file()


def test_bfloat16_is_exported_as_float32(tmp_path):
    h5py = pytest.importorskip("h5py")
    with RolloutStorage(tmp_path, threads=1) as storage:
        storage.save(TensorDict({"x": torch.full((2, 3), 1.5, dtype=torch.bfloat16)}, [2, 3]), 0)
        export(storage, "hdf5", tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["rollout_000000/x"].dtype == np.float32 and file["rollout_000000/x"][1, 2] == 1.5


def test_a_missing_package_is_named_with_the_remedy(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert main(["export", str(folder), "--to", "hdf5"]) == 2
    assert "needs h5py: pip install 'slipstream-rl[rollouts]'" in capsys.readouterr().err
    assert not (tmp_path / "run" / "rollouts.h5").exists()


def test_ls_and_show_tell_what_is_there(folder, capsys):
    assert main(["ls", str(folder.parent)]) == 0  # the run's folder will do
    said = capsys.readouterr().out
    assert "6 x 16" in said and "frames 192" in said and "4 batches" in said
    assert main(["show", str(folder), "1"]) == 0
    said = capsys.readouterr().out
    assert "6 environments x 16 steps" in said and "x one step later, except 6" in said and "observation.x" in said
    assert "24 episodes in this batch: 18 complete (18 terminated), 4.0 steps" in said
    assert main(["show", str(folder / "rollout_000100.slip"), "100", "--all"]) == 0
    capsys.readouterr()
    assert main(["show", str(folder), "--all"]) == 0
    assert "episodes in all 4 batches, joined where one continues another: " in capsys.readouterr().out


def test_a_key_that_is_not_there_is_told_without_quotes_around_it_all(folder, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    assert (
        main(["export", str(folder), "--to", "parquet", "--out", str(tmp_path / "x.parquet"), "--keys", "rewards"]) == 2
    )
    assert capsys.readouterr().err.startswith("slipstream rollouts: no 'rewards' here; there are ")


def test_verify_finds_the_broken_file_and_its_place(folder, capsys):
    assert main(["verify", str(folder)]) == 0
    path = folder / "rollout_000001.slip"
    content = bytearray(path.read_bytes())
    with RolloutStorage(folder) as storage:
        file = storage.file(1)
        offset, nbytes = block_place(file, file.keys.index(("reward",)))
    content[offset + nbytes - 20] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert main(["verify", str(folder)]) == 1
    said = capsys.readouterr().out
    assert "3 good, 1 broken" in said and "'reward'" in said and "rollout_000001.slip" in said
    path.write_bytes(content[:1000])
    assert main(["ls", str(folder)]) == 0 and "4 batches (1 of them broken)" in capsys.readouterr().out


def test_pictures_of_paths_and_curves(folder, tmp_path, capsys):
    out = tmp_path / "curves.png"
    assert (
        main(["show", str(folder), "0", "--all", "--picture", str(out), "--episodes", "0,3-4", "--keys", "reward"]) == 0
    )
    assert out.read_bytes()[:4] == b"\x89PNG" and "drew" in capsys.readouterr().out
    assert main(["show", str(folder), "0", "--picture", str(out), "--episodes", "999"]) == 2
    assert "there is none; there are 0 to 23" in capsys.readouterr().err


def test_a_folder_without_rollouts_and_help(tmp_path, capsys):
    assert main(["ls", str(tmp_path)]) == 2
    assert "has no rollouts" in capsys.readouterr().err
    assert slipstream(["rollouts", "ls", str(tmp_path)]) == 2
    done = warm_python.run(
        [sys.executable, "-m", "slipstream", "rollouts", "export", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "Minari by episode" in done.stdout


@pytest.fixture
def one_cut(folder):
    """The folder with its second file cut off."""
    path = folder / "rollout_000001.slip"
    path.write_bytes(path.read_bytes()[:1000])
    return folder


def damage(path, key):
    """Flip a bit in the first block of a key."""
    offset, nbytes = block_place(file := RolloutFile(path), file.keys.index((key,)))
    content = bytearray(path.read_bytes())
    content[offset + nbytes - 20] ^= 1
    path.write_bytes(content)


def test_export_skips_broken_files_and_says_so(one_cut, tmp_path, capsys):
    h5py = pytest.importorskip("h5py")
    damage(one_cut / "rollout_000002.slip", "reward")
    out = tmp_path / "out.h5"
    assert main(["export", str(one_cut), "--to", "hdf5", "--out", str(out)]) == 1
    told = capsys.readouterr()
    assert [line.startswith("warning: skipped a broken file") for line in told.err.splitlines()] == [True, True]
    assert "rollout_000001.slip" in told.err and "rollout_000002.slip" in told.err and "2 batches" in told.out
    with h5py.File(out) as file:
        assert list(file) == ["rollout_000000", "rollout_000100"]
    assert main(["export", str(one_cut), "--to", "hdf5", "--out", str(out), "--keys", "action"]) == 1
    with h5py.File(out) as file:  # what is damaged in 2 is not asked for
        assert list(file) == ["rollout_000000", "rollout_000002", "rollout_000100"]
    assert main(["export", str(one_cut), "--to", "hdf5", "--out", str(out), "--iterations", "0,100"]) == 0
    assert main(["export", str(one_cut), "--to", "hdf5", "--out", str(out), "--iterations", "1"]) == 2


def test_show_draws_what_is_whole_and_says_what_is_not(one_cut, tmp_path, capsys):
    out = tmp_path / "c.png"
    assert main(["show", str(one_cut), "--all", "--picture", str(out)]) == 1
    told = capsys.readouterr()
    assert (
        told.err.count("warning: ") == 1
        and "rollout_000001.slip" in told.err
        and "in all 3 batches" in told.out
        and out.exists()
    )
    damage(one_cut / "rollout_000000.slip", "reward")
    assert main(["show", str(one_cut), "--all", "--picture", str(out)]) == 1
    assert "left out episode 0 (" in capsys.readouterr().err
    last = one_cut / "rollout_000100.slip"
    last.write_bytes(last.read_bytes()[:1000])
    assert main(["show", str(one_cut)]) == 1  # the last that is whole
    told = capsys.readouterr()
    assert "iteration 2" in told.out and "rollout_000100.slip" in told.err and "rollout_000001" not in told.err


def test_verify_says_what_to_do(one_cut, capsys):
    assert main(["verify", str(one_cut)]) == 1
    said = capsys.readouterr().out
    assert "delete it or move it away" in said and "on_broken='skip'" in said and "load(iteration" not in said
    damage(one_cut / "rollout_000002.slip", "reward")
    assert main(["verify", str(one_cut)]) == 1
    assert "load(iteration, keys=[...])" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "most"), [(9120, 96), (97, 96), (96, 96), (7, 6), (3, 6), (0, 6)])
def test_drawn_episodes_are_spread_from_the_first_to_the_last(count, most):
    numbers = rollouts.evenly_spread(count, most)
    assert len(numbers) == min(count, most) and numbers[:1] == [0][:count] and numbers[-1:] == [count - 1][:count]
    gaps = {b - a for a, b in zip(numbers, numbers[1:], strict=False)}
    assert not gaps or (min(gaps) >= 1 and max(gaps) - min(gaps) <= 1)


def test_the_title_tells_how_many_are_drawn_and_that_they_are_spread(folder, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(rollouts, "draw_curves", lambda path, read, names, title: drawn.append((names, title)) or path)
    assert main(["show", str(folder), "--all", "--picture", str(tmp_path / "c.png")]) == 0
    assert main(["show", str(folder), "--all", "--picture", str(tmp_path / "c.png"), "--episodes", "1,2"]) == 0
    # 14 episodes an environment: ten of 0 to 47, four of 200 to 215
    assert drawn[0][0][0] == "episode 0" and drawn[0][0][-1] == "episode 83"
    assert [title for _, title in drawn] == [
        "run/rollouts, episodes: 6 of 84, evenly spread",
        "run/rollouts, episodes: 2 of 84",
    ]


@pytest.mark.parametrize("picture", [True, False])
def test_a_wrong_key_or_episode_is_told_before_anything_else(folder, tmp_path, capsys, picture):
    more = ["--picture", str(tmp_path / "c.png")] if picture else []
    assert main(["show", str(folder), "--keys", "rewrd", *more]) == 2
    there = "observation.x, action, reward, done, next.observation.x"
    assert capsys.readouterr().err == f"slipstream rollouts: no 'rewrd' here; there are {there}; did you mean reward?\n"
    assert main(["show", str(folder), "--keys", "observatoin", *more]) == 2
    assert capsys.readouterr().err.endswith("did you mean observation?\n")
    assert main(["show", str(folder), "--episodes", "five", *more]) == 2
    assert capsys.readouterr().err == "slipstream rollouts: --episodes five: write numbers and ranges, as 0,3,10-20\n"
