"""The words of the command line: help, exit codes, and mistakes answered in a sentence."""

from __future__ import annotations

import sys

import pytest
from cli_runner import run_cli, run_process

COMMANDS = ("train", "eval", "demo", "bench", "advise", "export", "ckpt", "rollouts")


def test_without_a_word_and_with_help_it_lists_the_commands():
    for words in ([], ["--help"]):
        shown = run_cli(*words)
        assert shown.code == 0 and all(name in shown.out for name in COMMANDS)
    version = run_cli("--version")
    assert version.code == 0 and version.out.strip()[0].isdigit()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    shown = run_cli(command, "--help")
    assert shown.code == 0 and command in shown.out and shown.err == ""


def test_train_help_lists_keys_with_defaults():
    shown = run_cli("train", "--help").out
    for key in (
        *(
            "env.num_envs=1024",
            "env.num_obstacles=350",
            "algo.learning_rate=0.0005",
            "algo.training_frame_num=32",
            "algo.minibatches=16",
        ),
        *(
            "total_frames=1200000000",
            "save_interval=1000",
            "eval_interval=500",
            "compress_checkpoint=true",
            "seed=0",
            "device=auto",
        ),
        *("async_checkpoint_queue_size=3", "save_compression_level=9", "keep_checkpoints=5", "checkpoint_full_every=1"),
        *(
            "rollout_save_interval=0",
            "rollout_compression_level=9",
            "resume=null",
            "init=null",
            "collect.pipeline=off",
            "preset=",
        ),
        *(
            "eval.num_drones=256",
            "league.enabled=false",
            "wandb.project=slipstream",
            "model.trunk=[256,256]",
            "compile=auto",
        ),
    ):
        assert key in shown, key


def test_help_follows_the_algorithm_and_the_task():
    sac = run_cli("train", "algo=sac", "--help").out
    assert "algo.batch_size=" in sac and "algo.learn_entropy=" in sac and "algo.clip=" not in sac
    duel = run_cli("train", "task=aircombat", "--help").out
    assert "env.time_scale=" in duel and "env.num_obstacles=" not in duel


def test_eval_help_lists_keys():
    shown = run_cli("eval", "--help").out
    for key in ("checkpoint=", "compare=", "eval.map_seeds=[101,102,103]", "eval.num_drones=", "json=false"):
        assert key in shown, key


@pytest.mark.parametrize("command", ["info", "verify", "export"])
def test_ckpt_has_its_commands(command):
    assert command in run_cli("ckpt", "--help").out and run_cli("ckpt", command, "--help").code == 0


@pytest.mark.parametrize("command", ["ls", "show", "verify", "export"])
def test_rollouts_has_its_commands(command):
    assert command in run_cli("rollouts", "--help").out and run_cli("rollouts", command, "--help").code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["train", "env.num_env=3"], ["env.num_env", "env.num_envs"]),
        (["train", "total_frame=3"], ["total_frames"]),
        (["train", "env.num_envs=many"], ["env.num_envs"]),
        (["train", "algo.gamma=7"], ["algo.gamma", "7"]),
        (["train", "algo=ppp"], ["ppp", "ppo"]),
        (["train", "task=nowhere:Env"], ["nowhere"]),
        (["train", "device=gpu"], ["gpu"]),
        (["train", "resume=nowhere"], ["nowhere"]),
        (["train", "env.num_envs=4", "env.num_obstacles=0", "init=nowhere.pt", "device=cpu"], ["nowhere.pt"]),
        (["train", "env.num_envs=4", "env.num_obstacles=0", "algo.minibatches=3", "device=cpu"], ["algo.minibatches"]),
        (["eval", "eval.num_drone=5"], ["eval.num_drones"]),
        (["eval", "eval.num_drones=0"], ["eval.num_drones"]),
        (["eval", "checkpoint=nowhere.pt"], ["nowhere.pt"]),
        (["export", "checkpoint=nowhere.pt", "--to", "onnx"], ["nowhere.pt"]),
    ],
)
def test_a_mistake_is_one_sentence_with_exit_code_2(tmp_path, words, named):
    done = run_cli(*words, cwd=tmp_path)
    assert done.code == 2 and "Traceback" not in done.err
    assert [word for word in named if word not in done.err] == []
    assert list(tmp_path.iterdir()) == []  # and nothing was begun


def test_a_mistyped_command_is_answered_with_the_nearest():
    done = run_cli("trian")
    assert done.code == 2 and "trian" in done.err and "train" in done.err


def test_a_mistake_in_a_process_of_its_own(tmp_path):
    done = run_process("train", "env.num_env=3", cwd=tmp_path)
    assert (
        done.code == 2
        and "env.num_envs" in done.err
        and "Traceback" not in done.err
        and len(done.err.strip().splitlines()) == 1
    )


def test_help_does_not_load_torch():
    import subprocess

    code = "import sys; sys.argv = ['slipstream', '--help']; from slipstream.cli import main; main(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0
