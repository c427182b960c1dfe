"""algo.data and init_replay from Minari datasets: our export, Minari's own, and files that are not trusted."""

from __future__ import annotations

import json
import shlex
import warnings

import numpy as np
import pytest
import torch
from toy_env import Cart

from slipstream import RolloutStorage, SyncDataCollector
from slipstream.algorithms.stored import StoredData, load_frames
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.envs.specs import Box, Discrete
from slipstream.rollouts.export import export
from slipstream.storage.errors import DamagedFileError, TooLargeError
from slipstream.training.trainer import Trainer

h5py = pytest.importorskip("h5py")
minari = pytest.importorskip("minari")
gymnasium = pytest.importorskip("gymnasium")

CART = Cart(1)
SPECS = CART.observation_spec, CART.action_spec
QUIET = shlex.split(
    "save_interval=1 eval_interval=0 device=cpu quiet=true wandb.mode=disabled model.part=0 model.trunk=[16]"
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder of rollout files, and the dataset that is exported from it."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("flown")
    collector = SyncDataCollector(Cart(4), lambda seen: 2 * torch.rand(4, 1) - 1, 4 * 16)
    with RolloutStorage(folder) as storage:
        for i in range(3):
            storage.save(collector.rollout(), i)
        export(storage, "minari", folder.parent / "cart")
    return folder, folder.parent / "cart-v0"


def create(folder, name, observations, actions, action_space, monkeypatch, observation_space=None):
    """A dataset of one episode, written by Minari."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    steps = len(actions)
    ends = np.arange(steps) == steps - 1
    episode = minari.data_collector.EpisodeBuffer(
        id=0, observations=observations, actions=actions, rewards=np.arange(steps, dtype=float),
        terminations=ends, truncations=ends & False,
    )  # fmt: skip
    box = gymnasium.spaces.Box(-np.inf, np.inf, np.shape(observations)[1:], np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            name, [episode], observation_space=observation_space or box, action_space=action_space
        )
    return folder / name


def transitions(path):
    """The transitions at `path` as sorted tuples of numbers."""
    parts = [torch.cat([x.reshape(len(x), -1).double() for _, x in sorted(rows.items())], -1)
             for rows in StoredData(path, SPECS, "init_replay").chunks(7, 10_000)]  # fmt: skip
    assert max(map(len, parts)) <= 7
    return sorted(map(tuple, torch.cat(parts).tolist()))


def test_an_exported_dataset_has_the_transitions_of_its_rollout_files(exported):
    """Except the ends that the export adds where an episode was not saved to its end."""
    files, dataset = (np.array(transitions(path)) for path in exported)
    assert files.shape == dataset.shape and len(files) > 100
    assert np.array_equal(files[:, :-1], dataset[:, :-1])
    added = dataset[:, -1] - files[:, -1]
    assert set(added) == {0, 1} and added.sum() <= 4  # truncated, at most once per environment


def test_a_policy_is_cloned_from_a_dataset_and_a_buffer_filled(exported, tmp_path):
    words = ["task=toy_env:Cart", "env.num_envs=4", "algo.rollout_steps=8", *QUIET]
    with Trainer(load_train([*words, "algo=bc", f"algo.data={exported[1]}", "algo.minibatches=2"])) as trainer:
        assert trainer.step().metrics["bc/loss"].isfinite()
        assert "frames of" in trainer.learner.startup_message(1, 1)
        count = len(trainer.learner.data["action",])
    with Trainer(load_train([*words, "algo=sac", f"init_replay={exported[1]}", "algo.buffer_size=1000"])) as trainer:
        assert len(trainer.learner.buffer) == count == len(transitions(exported[0]))


def test_the_newest_steps_are_taken(exported):
    newest = load_frames(str(exported[1]), SPECS, "algo.data", 9)["action",]
    assert torch.equal(newest, load_frames(str(exported[1]), SPECS, "algo.data", 10_000)["action",][-9:])


def test_a_dataset_of_minari_is_read_by_its_id(tmp_path, monkeypatch):
    """float64 observations and actions with several bounds, as task=gym has them."""
    seen = np.random.default_rng(0).normal(size=(6, 3))
    low, high = np.float32([-2, 0]), np.float32([2, 10])
    actions = np.float32([[-2, 0], [0, 5], [2, 10], [1, 2.5], [0, 0]])
    create(tmp_path, "made/by-v1", seen, actions, gymnasium.spaces.Box(low, high), monkeypatch)
    rows = load_frames("made/by-v1", ({"observation": Box((3,))}, Box((2,), -1.0, 1.0)), "algo.data", 100)
    assert torch.equal(rows["observation", "observation"], torch.from_numpy(seen[:-1]).float())
    assert rows["action",].tolist() == [[-1, -1], [0, 0], [1, 1], [0.5, -0.5], [0, -1]]
    first = gymnasium.spaces.Discrete(3, start=5)
    create(tmp_path, "counted-v0", seen, np.array([5, 6, 7, 5, 6]), first, monkeypatch)
    rows = load_frames("counted-v0", ({"observation": Box((3,))}, Discrete(3)), "algo.data", 100)
    assert rows["action",].tolist() == [0, 1, 2, 0, 1]


def test_a_dataset_of_another_env_is_refused(exported, tmp_path, monkeypatch):
    for specs, message in (
        (
            ({"cart": Box((5,))}, SPECS[1]),
            r"has the observation 'cart' as float32 \[2\], and this env as float32 \[5\]",
        ),
        (({"other": Box((2,))}, SPECS[1]), "has no observation 'other'"),
        ((SPECS[0], Box((3,), -1.0, 1.0)), r"has the action as float32 \[1\], and this env as float32 \[3\]"),
        ((SPECS[0], Discrete(3)), r"has the action as float32 \[1\], and this env as int64"),
        ((SPECS[0], Box((1,), -0.1, 0.1)), "has actions from -0"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_frames(str(exported[1]), specs, "algo.data", 100)
    image = gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)
    act = gymnasium.spaces.Discrete(2)
    create(tmp_path, "images-v0", np.zeros((3, 32, 32, 3), np.uint8), np.array([0, 1]), act, monkeypatch, image)
    with pytest.raises(ConfigError, match="as uint8 .[0-9]+., and this env as uint8 .32, 32, 3"):  # stored as JPEG
        load_frames("images-v0", ({"observation": Box((32, 32, 3), dtype=torch.uint8)}, Discrete(2)), "algo.data", 100)


def change(file, way, folder):
    """Change a dataset as somebody might who is not trusted."""
    episode = file["episode_0"]
    if way == "a link":
        del episode["actions"]
        episode["actions"] = h5py.ExternalLink(str(folder / "other.hdf5"), "actions")
    elif way == "other files":
        del episode["actions"]
        episode.create_dataset("actions", (10, 1), "f4", external=[(str(folder / "secret"), 0, h5py.h5f.UNLIMITED)])
    elif way == "a virtual array":
        layout = h5py.VirtualLayout((10, 1), "f4")
        layout[:] = h5py.VirtualSource(str(folder / "other.hdf5"), "actions", (10, 1))
        del episode["actions"]
        episode.create_virtual_dataset("actions", layout)
    elif way == "sizes":
        for name in ("rewards", "terminations", "truncations"):
            episode[name].resize((10**12,))
        for name in ("cart", "place"):
            episode["observations"][name].resize((10**12 + 1, *episode["observations"][name].shape[1:]))
        episode["actions"].resize((10**12, 1))
    elif way == "lengths":
        episode["actions"].resize((3, 1))
    elif way == "texts":
        del episode["rewards"]
        episode["rewards"] = ["code"] * 10


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("a link", "'actions' is missing, or a link to another place"),
        ("other files", "'actions' is stored in other files"),
        ("a virtual array", "'actions' is stored in other files"),
        ("lengths", "and 3 rows of '/episode_0/actions'"),
        ("texts", "the dataset is malformed"),
        ("sizes", "'rewards' claims 4,000,000,000,000 bytes, which it does not store"),
        ("a small budget", "the limit is 1e-07 GB"),
    ],
)
def test_hostile_datasets_are_refused(exported, tmp_path, monkeypatch, way, message):
    (tmp_path / "data").mkdir()
    for name in ("main_data.hdf5", "metadata.json"):
        (tmp_path / "data" / name).write_bytes((exported[1] / "data" / name).read_bytes())
    (tmp_path / "secret").write_bytes(bytes(40))
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "a") as file:
        change(file, way, tmp_path)
    monkeypatch.setenv("SLIPSTREAM_MAX_BYTES", "100" if way == "a small budget" else "2e8")
    with pytest.raises((DamagedFileError, TooLargeError), match=message):
        load_frames(str(tmp_path), SPECS, "algo.data", 10**13)


def test_broken_datasets_are_refused_in_one_sentence(exported, tmp_path, capsys):
    good, metadata = ((exported[1] / "data" / name).read_bytes() for name in ("main_data.hdf5", "metadata.json"))
    told = json.loads(metadata)
    for data, about, message in (
        (good[:5000], metadata, "main_data.hdf5: it is damaged, or not an HDF5 file"),
        (b"no data", metadata, "main_data.hdf5: it is damaged, or not an HDF5 file"),
        (good, b"{", "metadata.json is malformed JSON"),
        (good, b"[]", "metadata.json is malformed"),
        (good, json.dumps(told | {"data_format": "parquet"}).encode(), "in the format 'parquet': only 'hdf5'"),
        (None, metadata, "main_data.hdf5"),
    ):
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        (folder / "metadata.json").write_bytes(about)
        (folder / "main_data.hdf5").unlink() if data is None else (folder / "main_data.hdf5").write_bytes(data)
        words = ["task=toy_env:Cart", "algo=bc", f"algo.data={tmp_path}", f"root={tmp_path}/runs", *QUIET]
        assert main(["train", *words]) == 2
        said = capsys.readouterr().err.strip()
        assert message in said and "Traceback" not in said and len(said.splitlines()) == 1
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())
