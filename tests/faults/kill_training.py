"""Kill trainings with SIGKILL and resume them: `python kill_training.py FOLDER KILLS SEED`; prints a line per run.

Victims are forked from a process that has imported everything and has no threads, so a start takes a fraction of a
second. Kills come in turn at a random system call of a save and after a random time.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import sys
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import torch

from slipstream.checkpoint import load_checkpoint
from slipstream.checkpoint.load import newest_good
from slipstream.cli import ckpt, main, rollouts, train  # noqa: F401
from slipstream.config.compose import load_train
from slipstream.storage.files import FileSystem
from slipstream.training.metrics_log import read_metrics

NAVIGATION = """
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.num_worlds=2
    env.max_episode_steps=400 algo.rollout_steps=8 model.encoder=dict model.part=8 model.trunk=[16] eval_interval=0
"""
COMMON = """
    total_frames=1024 save_interval=1 rollout_save_interval=1 checkpoint_full_every=3
    device=cpu threads=1 quiet=true wandb.mode=disabled
"""
RUNS = {
    "ppo": NAVIGATION + "algo.minibatches=4 algo.epochs=1 collect.pipeline=on",
    "sac": NAVIGATION + "algo=sac algo.updates=4 algo.warmup=64 algo.batch_size=16 algo.save_replay=on",
    "league": """task=aircombat reward=shaped num_envs=8 env.time_scale=60 env.backend=native algo.rollout_steps=8
        algo.minibatches=2 algo.epochs=1 algo.schedule=constant model.trunk=[8] model.part=0 league.enabled=true
        league.seats=4 league.pool=4 league.games=2 league.patience=1 league.snapshot_every=1 eval_interval=4""",
}
ITERATIONS = 16
CALLS = ("create", "write", "fsync", "replace", "symlink", "unlink")
KILLS_PER_RUN = 10


def start(words, log, kill_at_call=0) -> int:
    """Fork a process that runs a command, and SIGKILLs itself at the n-th system call of its saves."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    calls = iter(range(1, 1 << 60))

    def counted(plain):
        def call(*args):
            if next(calls) == kill_at_call:
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(*args)

        return call

    for name in CALLS:
        setattr(FileSystem, name, staticmethod(counted(getattr(FileSystem, name))))
    code = main(words)
    Path(f"{log}.calls").write_text(str(next(calls) - 1))
    os._exit(code)


def finish(pid) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(words, log) -> None:
    """Run a command that must succeed."""
    code = finish(start(words, log))
    assert code == 0, f"{shlex.join(words)} ended with {code}: {Path(log).read_text()[-2000:]}"


def newest(folder) -> int:
    """Return the iteration of the newest checkpoint that can be loaded, 0 without one."""
    try:
        return int(newest_good(folder / "checkpoints")[1]["iteration"])
    except FileNotFoundError:
        return 0


def check(folder, log) -> None:
    """Verify every stored file of a run."""
    run(["ckpt", "verify", str(folder)], log)
    if (folder / "rollouts").is_dir() and list((folder / "rollouts").glob("rollout_*")):
        run(["rollouts", "verify", str(folder / "rollouts")], log)


def same(a, b) -> bool:
    """Compare nested state bit for bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def kill_one_run(root, kind, kills, seed) -> tuple[int, int]:
    """Train, kill and resume at most `kills` times, let the run finish, and compare it with one never killed.

    Returns:
        The number of kills, and of starts with `resume=`.
    """
    rng, log, folder = random.Random(f"{kind} {seed}"), root / "log", root / f"{kind}-{seed}"
    words = ["train", *shlex.split(RUNS[kind] + COMMON), f"root={root}"]
    if not (root / kind).exists():
        began = time.monotonic()
        run([*words, f"name={kind}"], log)
        (root / kind / "measured").write_text(f"{time.monotonic() - began} {Path(f'{log}.calls').read_text()}")
    seconds, calls = map(float, (root / kind / "measured").read_text().split())
    reached = resumed = killed = 0
    for number in range(kills + 1):
        command = ["train", f"resume={folder}"] if reached else [*words, f"name={folder.name}"]
        resumed += reached > 0
        if not reached and folder.exists():  # killed before its first checkpoint: start again
            folder.rename(root / f"{folder.name}-{number}")
        if number == kills:
            run(command, log)
            break
        at_call = 0 if number % 2 else rng.randrange(int(calls * 0.1), int(calls * (0.3 if reached else 0.6)))
        pid = start(command, log, at_call)
        if not at_call:
            time.sleep(rng.random() * seconds)
            os.kill(pid, signal.SIGKILL)
        code = finish(pid)
        assert code in (0, -signal.SIGKILL), f"{command} ended with {code}: {log.read_text()[-2000:]}"
        killed += code != 0
        now = newest(folder)
        assert now >= reached, f"the newest checkpoint was {reached}, and is {now} after a kill"
        reached = now
        if reached:
            check(folder, log)
        if code == 0:  # it was faster than the kill
            break
    check(folder, log)
    rows = [row["iteration"] for row in read_metrics(folder)]
    assert rows == list(range(1, ITERATIONS + 1)), rows
    whole, resumed_state = (load_checkpoint(path / "checkpoints")["algo"] for path in (root / kind, folder))
    assert same(whole, resumed_state), f"{folder} ended with another state than a run without kills"
    return killed, resumed


def main_loop(root, kills, seed) -> None:
    for words in RUNS.values():  # imports the tasks; nothing here starts a thread
        load_train(shlex.split(words + COMMON))
    torch.set_num_threads(1)
    began, number, total = time.monotonic(), 0, 0
    while total < kills:
        kind = list(RUNS)[number % len(RUNS)]
        limit = min(KILLS_PER_RUN, max(1, kills // len(RUNS)), kills - total)
        killed, resumed = kill_one_run(root, kind, limit, seed + number)
        number, total = number + 1, total + killed
        print(
            f"{kind}: {killed} kills, {resumed} resumes; {total} kills in {time.monotonic() - began:.0f} s", flush=True
        )


if __name__ == "__main__":
    main_loop(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
