"""`config=FILE` and `slipstream config`: settings from files, composed with presets and typed words."""

from __future__ import annotations

import pytest
import yaml
from helpers.small_run import TINY

from slipstream.cli import main
from slipstream.config.compose import load_evaluate, load_train
from slipstream.config.help import ConfigError
from slipstream.config.overrides import plain_overrides


def write(path, text):
    path.write_text(text)
    return f"config={path}"


def test_a_file_is_over_the_preset_and_under_typed_words(tmp_path):
    file = write(tmp_path / "my.yaml", "save_interval: 7\nasync_checkpoint_queue_size: 2\n")
    for words in (["preset=debug", file, "save_interval=9"], ["save_interval=9", file, "preset=debug"]):
        cfg = load_train(words)
        assert (cfg.compress_checkpoint, cfg.async_checkpoint_queue_size, cfg.save_interval) == (False, 2, 9)


def test_a_file_takes_every_form_of_a_key(tmp_path):
    text = """
        # a remark
        task: aircombat
        preset: aircombat
        algo: {learning_rate: 1e-3, minibatches: 4}
        env.time_scale: 12
        compile: on
        wandb: {}
        name: 007
        total_frames: 12e8
        num_envs: 64
        model: {trunk: [32, 16]}
    """
    cfg = load_train([write(tmp_path / "my.yaml", text)])
    assert (cfg.task, cfg.algo.learning_rate, cfg.algo.minibatches, cfg.env.time_scale) == ("aircombat", 1e-3, 4, 12.0)
    assert (cfg.compile, cfg.name, cfg.total_frames, cfg.env.num_envs) == ("on", "007", 1_200_000_000, 64)
    assert cfg.model.trunk == [32, 16] and cfg.league.enabled


def test_words_that_were_parsed_are_not_read_again(tmp_path):
    file = tmp_path / "my.yaml"
    words = plain_overrides([write(file, "eval: {map_seeds: [7, 8]}\nname: \"'x'\"\n"), "--num-envs", "4"])
    file.unlink()
    cfg = load_train(plain_overrides(words))
    assert (cfg.eval.map_seeds, cfg.name, cfg.env.num_envs) == ([7, 8], "'x'", 4)


def test_a_list_of_seeds_takes_ranges(tmp_path):
    file = write(tmp_path / "e.yaml", "eval:\n  map_seeds: 301-303\n")
    assert load_evaluate([file]).eval.map_seeds == [301, 302, 303]
    assert load_evaluate(["eval.map_seeds=[5,7-9]"]).eval.map_seeds == [5, 7, 8, 9]
    with pytest.raises(ConfigError, match="model.trunk must be a list"):
        load_train(["model.trunk=64-70"])  # a mistake, not seven layers


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "env:\n  num_envs: 5\n  num_obstcles: SECRET\n",
            "my.yaml, line 3: unknown key: did you mean 'env.num_obstacles'?",
        ),
        ("seed: 1\nenv:\n  num_envs: SECRET\n", "my.yaml, line 3: env.num_envs must be a whole number"),
        ("eval:\n  map_seeds: [1, SECRET]\n", "my.yaml, line 2: eval.map_seeds must be a whole number"),
        ("eval:\n  map_seeds: SECRET\n", "my.yaml, line 2: eval.map_seeds must be a list"),
        ("env: SECRET\n", "my.yaml, line 1: env is a group of keys"),
        ("? [SECRET]\n: 1\n", "my.yaml, line 1: this is not YAML"),
        ("config: SECRET\n", "my.yaml, line 1: a file cannot name another"),
        ("a: [SECRET\n", "my.yaml, line 2: this is not YAML"),
        ("SECRET\n", "my.yaml has no settings"),
        ("- SECRET\n", "my.yaml has no settings"),
        ("!!python/object/apply:os.system [SECRET]\n", "my.yaml, line 1: this is not YAML"),
    ],
)
def test_a_mistake_in_a_file_names_the_line_and_not_the_contents(tmp_path, text, answer):
    with pytest.raises(ConfigError) as caught:
        load_train([write(tmp_path / "my.yaml", text)])
    assert answer in str(caught.value) and "SECRET" not in str(caught.value) and "\n" not in str(caught.value)


# -- slipstream config -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["preset=demo", "algo.epochs=2"],
        ["preset=aircombat", "league.mixes=[{'a.b:C': 1.0},{crank: 1.0}]", "league.promote=[0.1]"],
        ["task=gym", "algo=dqn", "env.kwargs={g: 9.8, mode: fast}"],
        ["name=it's", "init=a: b#c", "env.num_envs=auto", "max_time_s=1e-3"],
    ],
)
def test_what_it_prints_means_the_same_again(tmp_path, capsys, words):
    assert main(["config", *words]) == 0
    text = capsys.readouterr().out
    assert load_train([write(tmp_path / "my.yaml", text)]) == load_train(words)
    assert yaml.safe_load(text)["task"] == load_train(words).task


def test_it_writes_a_file_but_over_none_without_force(tmp_path, capsys):
    out = tmp_path / "my.yaml"
    assert main(["config", "seed=3", "--out", str(out)]) == 0
    assert main(["config", "seed=4", f"out={out}"]) == 2
    assert "overwrite it with --force" in capsys.readouterr().err and load_train([f"config={out}"]).seed == 3
    assert main(["config", "seed=4", f"out={out}", "--force"]) == 0
    assert load_train([f"config={out}"]).seed == 4


def test_a_runs_own_config_starts_another_run(tmp_path):
    assert main(["train", *TINY, "total_frames=128", f"root={tmp_path}", "name=one", "seed=5"]) == 0
    for given in ("one/config.yaml", "one"):
        assert main(["train", f"config={tmp_path / given}", f"root={tmp_path}", "name=one", "save_interval=3"]) == 0
    names = ("one", "one-2", "one-3")
    first, *others = [yaml.safe_load((tmp_path / name / "config.yaml").read_text()) for name in names]
    assert first["seed"] == 5 and all(other == {**first, "save_interval": 3} for other in others)


@pytest.mark.parametrize("text", ["seed: 1\nseed: 2\n", "env: {num_envs: 4}\nnum_envs: 8\n", "{seed: 1, seed: 2}"])
def test_a_key_that_a_file_sets_twice_is_refused(tmp_path, text):
    with pytest.raises(ConfigError, match=r"my\.yaml, line \d: this key is set twice, first in .*line 1: keep one"):
        load_train([write(tmp_path / "my.yaml", text)])
