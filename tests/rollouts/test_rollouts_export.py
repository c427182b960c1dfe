"""Batches cut into episodes, written for others, looked at from the command line."""

import json
import sys

import pytest
import torch
from rollout_worlds import flip, world

from slipstream import RolloutStorage
from slipstream.cli import main as slipstream
from slipstream.rollouts.export import episodes, export


def main(*words):
    return slipstream(["rollouts", *map(str, words)])


@pytest.fixture
def folder(tmp_path):
    """Three batches of 6 environments x 16 steps that follow one another, then one that does not; an episode ends every
    fifth step."""
    with RolloutStorage(tmp_path / "run" / "rollouts") as storage:
        for i in range(3):
            storage.save(world(6, 16, first=16 * i), i)
        storage.save(world(6, 16, first=200), 100)
    return storage.save_dir


def times(episode):
    return [int(r) // 1000 for r in episode["reward",]]


def test_episodes_are_cut_at_their_ends_and_joined_over_batches(folder):
    storage = RolloutStorage(folder)
    found = [e for e in episodes(storage, storage.iterations()) if e["reward",][0] % 1000 == 2]
    # 0 to 47 in fives, the last begun one cut by the gap; 200 to 215 likewise
    fives = [*range(0, 45, 5), 200, 205, 210]
    assert sorted(map(times, found)) == sorted([*([*range(t, t + 5)] for t in fives), [45, 46, 47], [215]])
    assert all(e["terminated",].tolist() == [False] * (len(e["reward",]) - 1) + [len(times(e)) == 5] for e in found)


def test_frames_that_are_not_valid_belong_to_no_episode(tmp_path):
    batch = world(1, 8)
    batch["done"] = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 0]], dtype=torch.bool)
    batch["valid"] = torch.tensor([[1, 1, 1, 0, 1, 1, 1, 0]], dtype=torch.bool)
    batch["terminated"] = torch.tensor([[0, 0, 1, 0, 0, 0, 0, 0]], dtype=torch.bool)
    batch["truncated"] = batch["done"] & ~batch["terminated"]
    with RolloutStorage(tmp_path) as storage:
        storage.save(batch, 0)
        for keys in (None, ["observation", "action", "reward"]):  # where episodes end is read anyway
            found = list(episodes(storage, [0], keys))
            assert [(times(e), bool(e["terminated",][-1])) for e in found] == [([0, 1, 2], True), ([4, 5, 6], False)]


def test_torchrls_ends_and_rewards_under_next_are_found(tmp_path):
    batch = world(2, 6)
    batch["next", "done"] = (torch.arange(6) == 2).expand(2, 6).unsqueeze(-1).clone()
    batch["next", "reward"] = torch.ones(2, 6, 1)
    batch["done"] = torch.zeros(2, 6, 1, dtype=torch.bool)
    with RolloutStorage(tmp_path) as storage:
        storage.save(batch, 0)
        assert [len(e["reward",]) for e in episodes(storage, [0])] == [3, 3, 3, 3]


def test_done_ends_an_episode_beside_terminated(tmp_path):
    batch = world(1, 8)
    batch["done"] = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 0]], dtype=torch.bool)
    batch["terminated"] = torch.tensor([[0, 0, 0, 0, 0, 0, 1, 0]], dtype=torch.bool)
    with RolloutStorage(tmp_path) as storage:
        storage.save(batch, 0)
        found = list(episodes(storage, [0]))
    assert [(times(e), bool(e["terminated",][-1])) for e in found] == [
        ([0, 1, 2], False),
        ([3, 4, 5, 6], True),
        ([7], False),
    ]


def test_parquet_holds_a_row_a_step(folder, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export(RolloutStorage(folder), "parquet", tmp_path / "out.parquet", keys=["reward", "observation", "done"])
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["iteration", "env", "step", "observation.x", "reward", "done"]
    row = table.slice(96 + 2 * 16 + 3, 1).to_pylist()[0]  # batch 1, environment 2, step 3: time 19
    assert (row["iteration"], row["env"], row["step"], row["reward"], row["done"]) == (1, 2, 3, 19_002.0, True)
    assert len(table) == 4 * 96
    assert row["observation.x"] == world(6, 16, first=16)["observation", "x"][2, 3].tolist()
    assert json.loads(table.schema.field("observation.x").metadata[b"shape"]) == [40]


def test_bfloat16_is_exported_as_float32(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with RolloutStorage(tmp_path) as storage:
        storage.save({"x": torch.full((2, 3), 1.5, dtype=torch.bfloat16)}, 0)
        export(storage, "parquet", tmp_path / "out.parquet")
    column = parquet.read_table(tmp_path / "out.parquet")["x"]
    assert str(column.type) == "float" and column.to_pylist() == [1.5] * 6


def test_minari_holds_the_episodes(folder, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    said = export(RolloutStorage(folder), "minari", tmp_path / "datasets" / "world", iterations=[0, 1, 2])
    assert "60 episodes" in said
    dataset = minari.load_dataset("world-v0")
    assert dataset.total_episodes == 60 and dataset.total_steps == 3 * 96
    episode = next(iter(dataset.iterate_episodes([0])))
    assert episode.observations.shape == (6, 40) and episode.observations[5, 0] == 5000.0  # the last one's successor
    assert episode.rewards.tolist() == [0, 1000, 2000, 3000, 4000]
    assert episode.terminations.tolist() == [False] * 4 + [True]


def test_minari_replaces_its_own_dataset_and_nothing_else(folder, tmp_path):
    pytest.importorskip("minari")
    (tmp_path / "my-videos-v0").mkdir()
    (tmp_path / "my-videos-v0" / "holiday.mp4").write_bytes(b"x")
    storage = RolloutStorage(folder)
    for _ in range(2):
        export(storage, "minari", tmp_path / "world", iterations=[0])
    (tmp_path / "link-v0").symlink_to(tmp_path / "world-v0")
    for name in ("my-videos", "link"):
        with pytest.raises(FileExistsError, match="no Minari dataset: give another name"):
            export(storage, "minari", tmp_path / name, iterations=[0])
    assert (tmp_path / "my-videos-v0" / "holiday.mp4").exists()
    assert (tmp_path / "world-v0" / "data" / "main_data.hdf5").is_file()


def test_a_missing_package_is_named_with_the_remedy(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main("export", folder, "--to", "parquet") == 2
    assert "needs pyarrow: pip install -e '.[rollouts]'" in capsys.readouterr().err
    assert not folder.with_name("rollouts.parquet").exists()


def test_info_lists_batches_and_keys(folder, capsys):
    assert main("info", folder.parent) == 0  # the run's folder will do
    said = capsys.readouterr().out
    assert "6 x 16" in said and "4 batches" in said and "next.observation.x" in said and "6 x 16 x 40" in said
    path = folder / "rollout_000001.slip"
    path.write_bytes(path.read_bytes()[:1000])
    assert main("info", folder) == 0 and "4 batches (1 of them broken)" in capsys.readouterr().out
    assert main("info", folder / "nowhere") == 2 and "has no rollouts" in capsys.readouterr().err


def test_verify_finds_the_broken_file_and_its_key(folder, capsys):
    assert main("verify", folder) == 0
    flip(folder / "rollout_000001.slip", "reward")
    (cut := folder / "rollout_000002.slip").write_bytes(cut.read_bytes()[:1000])
    capsys.readouterr()
    assert main("verify", folder) == 1
    said = capsys.readouterr().out
    assert "2 good, 2 broken" in said and "reward is damaged" in said and "rollout_000001.slip" in said
    assert "cannot be repaired" in said


def test_export_names_a_broken_file_and_leaves_nothing(folder, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    flip(folder / "rollout_000001.slip", "reward")
    out = tmp_path / "out.parquet"
    assert main("export", folder, "--to", "parquet", "--out", out) == 2
    assert "rollout_000001.slip: reward is damaged" in capsys.readouterr().err and not out.exists()
    assert main("export", folder, "--to", "parquet", "--out", out, "--iterations", "0,2-100") == 0
    assert main("export", folder, "--to", "parquet", "--out", out, "--keys", "action") == 0
    for words, message in (
        (("--iterations", "7"), "there is none; there are 0 to 100"),
        (("--iterations", "five"), "write numbers and ranges, as 0,3,10-20"),
        (("--keys", "rewrd"), "no 'rewrd' here; there are observation.x, action, reward, done, next.observation.x"),
    ):
        assert main("export", folder, "--to", "parquet", "--out", out, *words) == 2
        assert message in capsys.readouterr().err
