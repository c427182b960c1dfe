"""Trainings in several ranks, forked from one process that has imported everything: `python two_ranks.py FOLDER CASE
...`, as in `equal:ppo`.

A start by `slipstream train gpus=2` or torchrun imports torch in every process; here a rank starts in a fraction of a
second. A case raises AssertionError if it fails; `stops:20:1` is 20 stops with seed 1.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import socket
import sys
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")

import torch
import torch.distributed as dist
from tiny_runs import differences

import slipstream.train
import slipstream.training.distributed
from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.checkpoint import load_checkpoint
from slipstream.checkpoint.load import newest_good
from slipstream.cli import main
from slipstream.cli import train as _  # noqa: F401
from slipstream.config.compose import load_train
from slipstream.training.distributed import PEER_FAILED, OneProcess, Ranks
from slipstream.training.metrics_log import read_metrics

sys.path.append(str(Path(__file__).parents[1] / "algorithms"))
from ppo_batches import make_batch, make_policy

TINY = """
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20
    env.max_episode_steps=400 algo.rollout_steps=8 model.encoder=dict model.part=8 model.trunk=[16]
    total_frames=2560 save_interval=2 eval_interval=0 device=cpu threads=1 quiet=true wandb.mode=disabled
"""
RUNS = {  # 20 iterations of 2 x 64 frames
    "ppo": TINY + "algo.minibatches=4 algo.epochs=2 algo.schedule=adaptive algo.kl_limit=0.05 collect.pipeline=on",
    "gru": TINY + "algo.minibatches=4 algo.epochs=2 model.memory=gru model.hidden_size=8 collect.pipeline=on",
    "sac": TINY + "algo=sac algo.updates=2 algo.warmup=64 algo.batch_size=16 algo.save_replay=on total_frames=1280",
    "league": """task=aircombat reward=shaped num_envs=8 env.time_scale=60 env.backend=native algo.rollout_steps=8
        algo.minibatches=2 algo.epochs=1 algo.schedule=constant model.trunk=[8] model.part=0 league.enabled=true
        league.seats=4 league.pool=4 league.games=2 league.patience=1 league.snapshot_every=1 eval_interval=4
        total_frames=1024 save_interval=2 device=cpu threads=1 quiet=true wandb.mode=disabled""",
}
END_S = 400  # a job that has not ended by then hangs; much more than it needs


def fork(task, log=None) -> int:
    """Run `task` in a new process; its result is the exit code."""
    pid = os.fork()
    if pid:
        return pid
    try:
        if log:
            fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
        os._exit(task() or 0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(99)


class Job:
    """Ranks that run `task(rank)`, and the store that torchrun would have."""

    def __init__(self, root, task, size=2, nodes=1) -> None:
        self._nodes = nodes
        self.logs = [root / f"rank{rank}.log" for rank in range(size)]
        read, write = os.pipe()
        self._store = fork(lambda: self._serve(write))
        port = os.read(read, 100).decode()
        os.close(read), os.close(write)
        self.pids = [
            fork(lambda rank=rank: self._rank(task, rank, size, port), self.logs[rank]) for rank in range(size)
        ]

    @staticmethod
    def _serve(write) -> None:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(write, str(store.port).encode())
        while os.getppid() != 1:
            time.sleep(0.5)

    def _rank(self, task, rank, size, port) -> int:
        node, local = divmod(rank, size // self._nodes)
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": str(size), "GROUP_RANK": str(node)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        return task(rank)

    def wait(self) -> list[int]:
        """Return the exit codes; a job that does not end is killed and has None."""
        codes, deadline = [None] * len(self.pids), time.monotonic() + END_S
        while None in codes and time.monotonic() < deadline:
            for rank, pid in enumerate(self.pids):
                if codes[rank] is None and (done := os.waitpid(pid, os.WNOHANG))[0]:
                    codes[rank] = os.waitstatus_to_exitcode(done[1])
                elif codes[rank] is None and 0 in codes:  # stopped after the others had finished: nobody waits for it
                    os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
        for pid in [pid for pid, code in zip(self.pids, codes, strict=True) if code is None] + [self._store]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return codes

    def text(self) -> str:
        return "\n".join(log.read_text() for log in self.logs if log.exists())


def train(root, words, keep=None, size=2, port=None) -> Job:
    """Start a training; each rank touches root/looping.RANK, and with `keep` saves what it ends with as KEEP.RANK.
    With a `port` rank 0 has the store, not the launcher."""
    for path in root.glob("looping.*"):
        path.unlink()
    plain = slipstream.train.loop

    def task(rank) -> int:
        def loop(trainer, *args):
            (root / f"looping.{rank}").touch()
            folder = plain(trainer, *args)
            algo = trainer.learner.state_dict()
            shared = {k: v for k, v in algo.items() if k not in trainer.learner.rank_keys}
            if keep:
                torch.save(
                    {"shared": shared, "env": trainer.env.state_dict(), "frames": trainer.frames}, f"{keep}.{rank}"
                )
            return folder

        slipstream.train.loop = loop
        if port:
            os.environ |= {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "False"}
        return main(["train", *words])

    return Job(root, task, size)


def wait_for_loop(root) -> float:
    """Wait until both ranks have begun to train; return the time."""
    deadline = time.monotonic() + END_S
    while len(list(root.glob("looping.*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    return time.monotonic()


def finish(job) -> None:
    codes = job.wait()
    assert codes == [0] * len(codes), f"exit codes {codes}: {job.text()[-3000:]}"


def words_of(root, kind, name, *more) -> list[str]:
    return [*shlex.split(RUNS[kind]), f"root={root}", f"name={name}", *more]


def equal(root, kind, name="equal") -> None:
    """Weights, optimizer and value statistics are the same on both ranks after 20 updates; the envs are not."""
    finish(train(root, words_of(root, kind, name), keep=root / "end"))
    a, b = (torch.load(root / f"end.{rank}") for rank in range(2))
    assert differences(a["shared"], b["shared"]) == []
    assert differences(a["env"], b["env"]) != []
    last = read_metrics(root / name)[-1]
    assert a["frames"] == b["frames"] == last["frames"]
    state = load_checkpoint(root / name / "checkpoints")
    assert len(state["ranks"]) == 1
    own = {key: value for key, value in state["algo"].items() if key not in a["shared"]}
    assert differences(state["algo"], a["shared"] | own) == []
    assert differences(state["collector"], state["ranks"][0]["collector"]) != []


def resume(root, kind) -> None:
    """Ranks are equal, and a stopped run continues bit for bit; with another number of ranks only with
    resume_envs=fresh."""
    equal(root, kind, "complete")
    total = int(next(w for w in reversed(words_of(root, kind, "")) if w.startswith("total_frames")).partition("=")[2])
    finish(train(root, words_of(root, kind, "half", f"total_frames={total // 2}")))
    half = root / "half"
    alone = fork(lambda: main(["train", f"resume={half}"]), root / "alone.log")
    assert os.waitstatus_to_exitcode(os.waitpid(alone, 0)[1]) == 2
    assert "give gpus=2, or resume_envs=fresh" in (root / "alone.log").read_text()
    finish(train(root, [f"resume={half}", f"total_frames={total}"]))
    states = [load_checkpoint(root / name / "checkpoints") for name in ("complete", "half")]
    assert differences(*states) == []
    assert [row["frames"] for row in read_metrics(half)] == [row["frames"] for row in read_metrics(root / "complete")]
    finish(train(root, [f"resume={half}", "resume_envs=fresh", f"total_frames={total + 3 * 64 * 3}"], size=3))
    last = read_metrics(half)[-1]
    assert last["frames"] == total + 3 * 64 * 3 and last["iteration"] == states[0]["iteration"] + 3
    assert len(load_checkpoint(half / "checkpoints")["ranks"]) == 2


def large_batch(root) -> None:
    """Two ranks with 256 envs each learn what one process learns from all 512, to 1e-5."""
    config = PPOConfig(epochs=7, minibatches=1, value_clip=0.0, schedule="adaptive", max_grad_norm=0.5)
    batches = [torch.cat([make_batch(make_policy(), 128 * k + i) for i in range(128)]) for k in range(3)]  # [512, 6]
    for batch in batches:
        batch["valid"][:100, 3:] = False  # the ranks have different numbers of frames that count

    def learn(ranks, part) -> dict:
        policy = make_policy()
        algo = PPO(policy, config)
        algo.average, algo.sums = ranks.average, ranks.sums
        losses = [algo.update(batch[part]) for batch in batches]
        return {"policy": policy.state_dict(), "losses": losses}

    def task(rank) -> None:
        with Ranks(load_train(["device=cpu"])) as ranks:
            torch.save(learn(ranks, slice(256 * rank, 256 * (rank + 1))), root / f"half.{rank}")

    finish(Job(root, task))
    one = learn(OneProcess(), slice(None))
    halves = [torch.load(root / f"half.{rank}") for rank in range(2)]
    assert differences(*halves) == []
    for name, x in one["policy"].items():
        torch.testing.assert_close(halves[0]["policy"][name], x, rtol=1e-5, atol=1e-5, msg=name)
    for mine, theirs in zip(halves[0]["losses"], one["losses"], strict=True):
        for name, x in theirs.items():
            torch.testing.assert_close(mine[name], x, rtol=1e-3, atol=1e-5, msg=name)


def stops(root, count, seed=0) -> None:
    """Kill or stop a rank at random moments: the job ends and names it; in the end nothing is lost."""
    rng = random.Random(f"stops {seed}")
    limit = f"distributed.timeout_s={5 if int(count) > 1 else 20}"  # a busy machine is no hang
    job = train(root, words_of(root, "ppo", "complete", limit))
    began = wait_for_loop(root)
    finish(job)
    seconds = time.monotonic() - began
    hits = number = 0
    while hits < int(count):  # the last run may be finished before a stop comes: then another one begins
        folder, reached, codes = root / f"stopped-{seed}-{number}", 0, None
        first = words_of(root, "ppo", folder.name, limit)
        number += 1
        while hits < int(count) and codes != [0, 0]:
            job = train(root, [f"resume={folder}"] if reached else first)
            victim, sign = rng.randrange(2), rng.choice((signal.SIGKILL, signal.SIGSTOP))
            wait_for_loop(root)
            time.sleep(seconds * rng.uniform(0, 0.5))
            os.kill(job.pids[victim], sign)
            codes, text = job.wait(), job.text()
            why = f"{codes} after {sign.name} of rank {victim}: {text}"
            assert None not in codes and codes[victim] in (0, -signal.SIGKILL), why
            if codes[1 - victim]:
                assert codes[1 - victim] == PEER_FAILED and text.count(f"rank {victim} of 2") == 1, why
            now = newest_good(folder / "checkpoints")[1]["iteration"] if list(folder.glob("checkpoints/ckpt_*")) else 0
            print(f"{sign.name} of rank {victim}: exit codes {codes}, checkpoint {reached} -> {now}", flush=True)
            assert now >= reached
            hits, reached = hits + (codes != [0, 0]), now
            if not reached and folder.exists():  # stopped before its first checkpoint
                folder.rename(root / f"{folder.name}-before-{hits}")
        finish(train(root, [f"resume={folder}"] if reached else first))
        assert differences(*(load_checkpoint(path / "checkpoints") for path in (root / "complete", folder))) == []
        assert [row["iteration"] for row in read_metrics(folder)] == list(range(1, 21))


def hosted(root) -> None:
    """A store that goes with rank 0: rank 1 names it and ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = words_of(root, "ppo", "hosted", "total_frames=1000000", "distributed.timeout_s=20")
    job = train(root, words, port=port)
    wait_for_loop(root)
    os.kill(job.pids[0], signal.SIGKILL)
    codes, text = job.wait(), job.text()
    assert codes == [-signal.SIGKILL, PEER_FAILED] and text.count("rank 0 of 2") == 1, f"{codes}: {text}"


def differ(root) -> None:
    """Two nodes with two ranks each: what differs on the second one is named once on each, and nothing is written."""
    first = words_of(root, "ppo", "run", "total_frames=256", "distributed.timeout_s=30")
    finish(Job(root, lambda rank: main(["train", *first, f"threads={1 + rank}", "name=one"]), size=4, nodes=2))
    one = root / "one"
    before = sorted(root.rglob("*"))

    def other_code(rank) -> None:
        slipstream.training.distributed.code_version = lambda: "0.1.0 (code 01234567)"

    def other_device(rank) -> None:
        slipstream.training.distributed.resolve_device = lambda name: torch.device("cuda")

    def broken(*args, **settings) -> None:
        raise OSError("no license")

    def broken_later(rank) -> None:
        slipstream.train.Trainer = broken

    def killed(rank) -> None:
        if rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    resumes, absent = [f"resume={one}"], [f"resume={root / 'absent'}"]
    quick = [*first, "distributed.timeout_s=3"]
    rate = [*first, "algo.learning_rate=2e-4"]
    cases = (
        (first, rate, None, "rank 2 of 4 .* has algo.learning_rate=0.0002, and rank 0 has .*: give all the same"),
        (first, first, other_code, r"has slipstream=0.1.0 \(code 01234567\), and rank 0 has slipstream="),
        (first, first, other_device, "has device=cuda, and rank 0 has device=cpu"),
        (first, [*first, "algo.epochs=many"], None, "algo.epochs must be"),
        (first, [*first, "env.num_envs=auto"], None, "env.num_envs=auto is measured in one process"),
        (resumes, absent, None, "absent"),
        (absent, resumes, None, "absent"),
        (first, first, broken_later, "no license"),
        (quick, quick, killed, "rank 3 of 4 has not started within 3 s of this one"),
    )
    for words, others, change, message in cases:

        def task(rank, words=words, others=others, change=change) -> int:
            if rank >= 2 and change:
                change(rank)
            return main(["train", *(words if rank < 2 else others)])

        job = Job(root, task, size=4, nodes=2)
        codes = job.wait()
        assert 0 not in codes and None not in codes, (codes, job.text())
        for node in (0, 1):
            text = "".join(log.read_text() for log in job.logs[2 * node : 2 * node + 2])
            said = [line for line in text.splitlines() if line.startswith("slipstream train:")]
            assert len(said) == 1 and re.search(message, said[0]), f"{message} on node {node}: {job.text()}"
            assert "frame #" not in text and "Traceback" not in text, text
        for log in job.logs:
            log.unlink()
        assert sorted(root.rglob("*")) == [path for path in before if path not in job.logs], change


if __name__ == "__main__":
    for words in RUNS.values():  # imports the tasks; nothing here starts a thread
        load_train(shlex.split(words))
    torch.set_num_threads(1)
    cases = {
        "equal": equal,
        "resume": resume,
        "large_batch": large_batch,
        "stops": stops,
        "hosted": hosted,
        "differ": differ,
    }
    for number, case in enumerate(sys.argv[2:]):
        name, *args = case.split(":")
        folder = Path(sys.argv[1]) / str(number)
        folder.mkdir()
        began = time.monotonic()
        cases[name](folder, *args)
        print(f"{case}: {time.monotonic() - began:.1f} s", flush=True)
