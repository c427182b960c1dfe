"""What is typed is what is meant; what cannot be meant is refused in one line that says what can."""

from __future__ import annotations

import textwrap

import pytest

from slipstream.cli import main
from slipstream.config import compose as config
from slipstream.config.compose import from_dict, load_evaluate, load_train, to_dict
from slipstream.config.help import ConfigError
from slipstream.config.registry import find_task
from slipstream.config.schema import EvaluateConfig, TrainConfig
from slipstream.config.values import settable
from slipstream.tasks.navigation.env import NavigationConfig

ISSUE = """headless=True env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80 wandb.mode=online compress_checkpoint=True"""


def error_of(*overrides, load=load_train):
    with pytest.raises(ConfigError) as caught:
        load(overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_documents_command_line_means_what_it_says():
    cfg = load_train(ISSUE.split())
    assert cfg.env.num_envs == 1024 and cfg.env.num_obstacles == 350
    assert cfg.env.dyn.num_obstacles == 80
    assert cfg.wandb.mode == "online" and cfg.compress_checkpoint is True and cfg.headless is True


def test_without_a_word_the_task_is_navrls():
    cfg = load_train()
    assert (cfg.task, cfg.env.num_envs) == ("navigation", 1024)
    assert (cfg.env.num_obstacles, cfg.env.dyn.num_obstacles) == (350, 80)
    assert (cfg.algo.rollout_steps, cfg.algo.learning_rate, cfg.total_frames) == (32, 5e-4, 1_200_000_000)
    assert cfg.env.dynamics == "velocity_lag" and cfg.env.dt_s == 0.016 and cfg.env.max_episode_steps == 2200


def test_the_presets_are_the_documents():
    production, debug = load_train(["preset=production"]), load_train(["preset=debug"])
    assert production.compress_checkpoint is True and production.async_checkpoint_queue_size == 3
    assert production.save_compression_level == 9 and production.save_interval == 1000
    assert debug.compress_checkpoint is False and debug.async_checkpoint_queue_size == 1 and debug.save_interval == 100


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("seed=3 --time-scale=2 --task aircombat", "env.time_scale", 2.0),
        ("--seed -3 --quiet", "seed", -3),
        ("env_dyn.vel_range=[0.1,1]", "env.dyn.speed_mps", (0.1, 1.0)),
        ("--total-timesteps=1e6", "total_frames", 1_000_000),
        ("algo=sac algo.n_steps=3", "algo.n_step", 3),  # SB3's name of two things
        ("algo.num_mini_batches=auto", "auto", ["algo.minibatches"]),
        ("algo=sac algo.batch_size=64", "algo.batch_size", 64),
    ],
)
def test_names_from_elsewhere_are_understood(old, new, value):
    found = load_train(old.split())
    for part in new.split("."):
        found = getattr(found, part)
    assert found == value


def test_an_explanation_for_a_file_names_the_line(tmp_path):
    (tmp_path / "my.yaml").write_text("seed: 1\nalgo:\n  batch_size: 64\n")
    answer = "my.yaml, line 3: unknown key: set the number of minibatches"
    assert error_of(f"config={tmp_path}/my.yaml").startswith(f"{tmp_path}/{answer}")


@pytest.mark.parametrize("typed", ["foo=1", "algo.banana=1", "env.tea_time=3", "env.friction=1", "algo.weight_decay=1"])
def test_a_key_that_is_near_nothing_gets_no_hint(typed):
    text = error_of(typed)
    assert "did you mean" not in text and text.startswith(f"unknown key '{typed.split('=')[0]}' (--help lists")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("number_envs=3", "env.num_envs"),
        ("env_dyn.num_obstacle=3", "env.dyn.num_obstacles"),
        ("lidar.range_m=3", "env.lidar.range_m"),
        ("presets=debug", "preset"),
        ("algo.num_learning_epoch=3", "algo.epochs"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(typed, meant):
    text = error_of(typed)
    assert f"unknown key '{typed.split('=')[0].replace('env_dyn', 'env.dyn')}'" in text
    assert f"did you mean '{meant}'?" in text and "--help" in text


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("env.num_envs=2.5", ["env.num_envs must be a whole number, not '2.5'"]),
        ("env.num_envs=0", ["env.num_envs must be at least 1"]),
        ("compress_checkpoint=maybe", ["compress_checkpoint", "maybe", "true or false"]),
        ("algo.gamma=2", ["algo.gamma must be in (0, 1], not 2"]),
        ("algo.learning_rate=-1", ["algo.learning_rate must be positive, not -1"]),
        ("algo.learning_rate=nan", ["algo.learning_rate must be a finite number of at most 3.4e38, not 'nan'"]),
        ("algo.kl_limit=-1", ["algo.kl_limit must be 0 or more, not -1.0; 0 turns it off"]),
        ("env.dynamics=helicopter", ["helicopter", "velocity_lag, quadrotor"]),
        ("algo.gamma=high", ["algo.gamma must be a number, not 'high'"]),
        ("eval.map_seeds=101", ["eval.map_seeds must be a list, written as [1,2,3], not '101'"]),
        ("eval.map_seeds=[8,7,8]", ["eval.map_seeds=[8,7,8] names a map twice"]),
        ("eval.map_seeds=8-7", ["a range such as 101-116, the smaller number first, of up to 10,000, not '8-7'"]),
        ("env.dyn.speed_mps=[2,1]", ["env.dyn.speed_mps=[2.0,1.0] must be 0 or more, the smaller one first"]),
        ("env.lidar.azimuths=100000", ["env.lidar has more than 65,536 beams"]),
        ("env.num_envs=[1", ["env.num_envs must be a value, or a list as [1,2,3], not '[1'"]),
        ("env.lidar=36", ["env.lidar is a group of keys", "set env.lidar.range_m="]),
        ("env.lidar=ramp(1,2)", ["env.lidar is a group of keys"]),
        ("--seed", ["seed needs a value: give seed=0"]),
        ("--resume", ["resume needs a value"]),
        ("eval.map_seeds=[a]", ["eval.map_seeds must be a whole number, not '[a]'"]),
        ("compile=fast", ["compile must be auto, on or off"]),
        ("save_compression_level=17", ["[0, 16]", "17"]),
        ("preset=prod", ["unknown preset 'prod'", "debug"]),
        ("task=navigaton", ["unknown task", "did you mean 'navigation'?", "my_package.my_module:MyEnv"]),
        ("algo=dqm", ["unknown algo 'dqm'", "ppo, dqn, sac, td3"]),
        ("env.num_envs", ["key=value"]),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_right(typed, parts):
    text = error_of(typed)
    for word in parts:
        assert word in text, text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resume": "a", "init": "b"}, "leave init out"),
        ({"keep_checkpoints": 1.5}, "keep_checkpoints must be a whole number, not 1.5"),
        ({"save_interval": True}, "save_interval must be a whole number, not True"),
        ({"save_minutes": "5"}, "save_minutes must be a number, not '5'"),
    ],
)
def test_a_config_made_in_python_checks_itself(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**settings)


@pytest.mark.parametrize(
    "path", ["runs/a b", "runs/x (1).pt", "a,b=c.pt", "it's", "2024", "runs/2026-11-20_14-03-12_navigation", "~/x"]
)
def test_any_path_can_be_given_as_it_is(path):
    assert load_train([f"init={path}"]).init == path
    assert load_evaluate([f"checkpoint={path}"]).checkpoint == path
    assert load_train([f"root={path}", "name=null"]).root == path


def test_a_configuration_written_down_and_read_again_is_the_same():
    words = "model.trunk=[64,32] env.lidar.elevations_deg=[-5,5] env.world_seeds=[4] algo.actor_weight=2 name=x"
    cfg = load_train(f"{ISSUE} {words}".split())
    again = from_dict(to_dict(cfg))
    assert again == cfg
    assert type(again.env.lidar.elevations_deg) is type(cfg.env.lidar.elevations_deg)


# -- envs of one's own -------------------------------------------------------------------------------------------------

OWN = """
from dataclasses import dataclass, field
import torch
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box

@dataclass
class Inner:
    gain: float = 2.0  # how hard it pulls

@dataclass
class Config:
    num_envs: int = 16
    wind: float = 0.5  # m/s
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self):
        if self.wind < 0:
            raise ValueError("env.wind must not be negative")

class Own(TensorEnv):
    Config = Config

class Bare(TensorEnv):
    pass

@dataclass
class Nameless:
    wind: float = 0.5

class Uncounted(TensorEnv):
    Config = Nameless
"""


@pytest.fixture
def own_task(tmp_path, monkeypatch):
    """A module in the folder one stands in."""
    (tmp_path / "own_env_for_config.py").write_text(textwrap.dedent(OWN))
    monkeypatch.chdir(tmp_path)
    return "task=own_env_for_config"


def test_an_env_of_ones_own_brings_its_own_keys(own_task):
    cfg = load_train([f"{own_task}:Own", "env.wind=1.5", "env.inner.gain=3", "env.num_envs=4"])
    assert cfg.task == "own_env_for_config:Own"
    assert (cfg.env.wind, cfg.env.inner.gain, cfg.env.num_envs) == (1.5, 3.0, 4)
    assert from_dict(to_dict(cfg)) == cfg


def test_its_keys_are_checked_like_ours(own_task):
    assert "did you mean 'env.wind'?" in error_of(f"{own_task}:Own", "env.wnd=1")
    assert "env.wind must not be negative" in error_of(f"{own_task}:Own", "env.wind=-1")
    assert "unknown key 'env.num_obstacles'" in error_of(f"{own_task}:Own", "env.num_obstacles=3")


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("task=no_such_module_anywhere:X", "cannot import no_such_module_anywhere"),
        (":Missing", "no TensorEnv subclass named Missing"),
        (":Inner", "no TensorEnv subclass named Inner"),
        (":Bare", "Bare.Config must be the dataclass of its settings, with a field num_envs"),
        (":Uncounted", "Uncounted.Config must be the dataclass of its settings, with a field num_envs"),
    ],
)
def test_a_task_that_is_none_is_refused_with_the_reason(own_task, task, answer):
    assert answer in error_of(task if task.startswith("task") else own_task + task)


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TrainConfig, EvaluateConfig])
def test_help_lists_every_key_with_its_default(kind):
    text = config.help_text("train" if kind is TrainConfig else "eval")
    keys = settable(kind(env=NavigationConfig()))
    if kind is EvaluateConfig:
        assert not any(f"  {key}=" in text for key in find_task("navigation").set_by_evaluation)
        keys = {key: value for key, value in keys.items() if key not in find_task("navigation").set_by_evaluation}
    leaves = [key for key in keys if not any(other.startswith(key + ".") for other in keys)]
    assert len(leaves) > 40
    assert [key for key in leaves if f"  {key}=" not in text] == []


@pytest.mark.parametrize(
    "words", [["task=aircombat"], ["--task", "aircombat", "--help"], ["preset=aircombat"], ["task=gym", "algo=dqn"]]
)
def test_help_shows_the_values_of_these_choices(words):
    text, cfg = config.help_text("train", words), load_train([word for word in words if word != "--help"])
    assert f"  task={cfg.task} " in text and f"  algo.gamma={cfg.algo.gamma}\n" in text
    if cfg.task == "aircombat":
        assert "  env.start=random " in text and f"  env.time_scale={cfg.env.time_scale} " in text


def test_help_for_an_env_of_ones_own_lists_its_keys(own_task):
    text = config.help_text("train", [f"{own_task}:Own"])
    assert "env.wind=0.5" in text and "m/s" in text and "env.inner.gain=2.0" in text
    assert "env.num_obstacles" not in text


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("env.num_envs=3", "eval.num_drones"),
        ("env.world_seeds=[1]", "eval.map_seeds"),
        ("task=aircombat eval.num_drones=3", "games"),
        ("task=aircombat eval.map_seeds=[3]", "task=aircombat has no use for it"),
        ("task=gym eval.map_seeds=[3]", "task=gym has no use for it"),
    ],
)
def test_keys_that_an_evaluation_sets_itself_are_refused(words, instead):
    assert instead in error_of(*words.split(), load=config.load_evaluate)


def test_training_does_not_evaluate_on_the_maps_of_eval():
    assert not set(load_train([]).eval.map_seeds) & set(config.load_evaluate([]).eval.map_seeds)


@pytest.mark.parametrize("command", ["train", "eval", "export", "config", "sweep"])
@pytest.mark.parametrize("word", ["resume=", "--resume=", "init=''", 'config=""', "seed="])
def test_a_key_without_a_value_is_refused(tmp_path, monkeypatch, capsys, command, word):
    monkeypatch.chdir(tmp_path)
    assert main([command, word]) == 2
    assert f"{word.lstrip('-').partition('=')[0]}= has no value: give one" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
