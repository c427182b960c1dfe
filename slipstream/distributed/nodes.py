"""Trainings on the nodes of a Ray cluster: `RayStart` starts them as `multirun.LocalStart` does on this machine.

A training is the same process as on this machine. On its node a Ray actor starts it, reports its end, and ends with it.
All nodes see the folder of the runs.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from slipstream.config.cluster import connect, import_ray, last_line
from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig
from slipstream.distributed.multirun import STOP_CODES, Job, start_job
from slipstream.storage.files import make_folder

CONNECT_S = 60.0
MAX_STARTS = 4  # of a training whose node or actor is lost
POLL_S = 0.2


class NodeTraining:
    """Runs a training on a node of the cluster, as a Ray actor.

    Args:
        job: The training.
        mark: A folder beside the run's: a node that has it sees the folder of the runs.
        work_folder: Where the command was typed; used if the node has it too.
        threads: CPU threads.
        start: Starts the process.
    """

    def __init__(
        self,
        job: Job,
        mark: Path,
        work_folder: str,
        threads: int,
        start: Callable[[Job, int], subprocess.Popen[bytes]] = start_job,
    ) -> None:
        if not mark.is_dir():
            folder = job.folder.parent
            raise FileNotFoundError(f"{socket.gethostname()} does not see {folder}: give root=FOLDER on a shared disk")
        if os.path.isdir(work_folder):
            os.chdir(work_folder)
        self._process = start(job, threads)

    def poll(self) -> int | None:
        """Return the exit code; None while the training runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask the training to save a checkpoint and to end."""
        self._process.terminate()


class RayProcess:
    """A training on a node. It is started again if its node or its actor is lost.

    Args:
        ray: The module.
        job: The training.
        create: Returns a new actor.
    """

    def __init__(self, ray: Any, job: Job, create: Callable[[Job], Any]) -> None:
        self.returncode: int | None = None
        self._ray, self._job, self._create = ray, job, create
        self._starts, self._stopped = 0, False
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self._actor, self._runs = self._create(self._job), False
        self._answer = self._actor.poll.remote()

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        if self.returncode is None and self._ray.wait([self._answer], timeout=0)[0]:
            try:
                code = self._ray.get(self._answer)
            except self._ray.exceptions.RayError as error:
                self._lose(last_line(error))
                return self.returncode
            self._runs = True
            if code in STOP_CODES and not self._stopped:  # the node is being shut down
                self._lose(f"the training was interrupted with code {code}")
            elif code is not None:
                self._end(code)
            else:
                self._answer = self._actor.poll.remote()
        return self.returncode

    def terminate(self) -> None:
        """Ask it to save a checkpoint and to end."""
        self._stopped = True
        if self._runs:
            self._actor.stop.remote()
        elif self.returncode is None:  # it may wait for a free node
            self._end(STOP_CODES[-1])

    def wait(self) -> int:
        """Return the exit code when it has ended."""
        while (code := self.poll()) is None:
            self._ray.wait([self._answer], timeout=POLL_S)
        return code

    def _lose(self, reason: str) -> None:
        """Start again after a loss, or end as failed after several."""
        self._ray.kill(self._actor)
        with open(self._job.folder.with_name(f"{self._job.name}.log"), "a") as log:
            print(f"start {self._starts} of {MAX_STARTS} on the Ray cluster is lost: {reason}", file=log)
        if self._stopped or self._starts == MAX_STARTS:
            self.returncode = STOP_CODES[-1] if self._stopped else 1
        else:
            self._start()

    def _end(self, code: int) -> None:
        self.returncode = code
        self._ray.kill(self._actor)


class RayStart:
    """Start trainings on a Ray cluster. Each has its share of the cores of a node, and a GPU if the cluster has some.

    Args:
        address: Of the cluster: "auto", HOST:PORT or ray://HOST:PORT.
        folder: Of the runs, on this machine.
        parallel: Trainings at a time; None for one per GPU, or per node of a cluster without GPUs.
        cfg: Of the trainings: their device.

    Raises:
        ConfigError: The cluster cannot be reached, its nodes have other versions, or the trainings do not fit.
    """

    start: Callable[..., Any] = staticmethod(start_job)

    def __init__(self, address: str, folder: Path, parallel: int | None, cfg: TrainConfig) -> None:
        for name, value in (("gpus", cfg.gpus), ("actors.count", cfg.actors.count)):
            if value is not None:
                raise ConfigError(
                    f"--ray does not work with {name}={value}: a trial is one process; leave one of them out"
                )
        self._ray = import_ray("--ray")
        self._connected = connect(self._ray, address, parallel or 1, CONNECT_S, "--ray ")
        try:
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self.parallel, self.cores, self.gpus = divide(nodes, parallel, cfg.device)
        except BaseException:
            self.close()
            raise
        self._folder = folder.resolve()
        self._mark = self._folder / ".workers" / f"ray-{uuid.uuid4().hex[:12]}"
        make_folder(self._mark)

    def __call__(self, job: Job) -> RayProcess:
        """Start or resume a training."""
        return RayProcess(self._ray, job, self._create)

    def _create(self, job: Job) -> Any:
        """Return a new actor for a training."""
        words = [word for word in job.words if not word.startswith("root=")]
        there = replace(job, words=[*words, f"root={self._folder}"], folder=self._folder / job.name)
        kind = self._ray.remote(NodeTraining).options(num_cpus=self.cores, num_gpus=self.gpus, max_restarts=0)
        return kind.remote(there, self._mark, os.getcwd(), self.cores, self.start)

    def describe(self) -> str:
        """Return a line on what each training has."""
        gpu = " and a GPU" if self.gpus else ""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"on the Ray cluster, {self.parallel} at a time, each with {cores}{gpu}"

    def close(self) -> None:
        """End the connection, if it was made here."""
        if hasattr(self, "_mark"):
            shutil.rmtree(self._mark, ignore_errors=True)
        if self._connected:
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def divide(nodes: Sequence[dict[str, float]], parallel: int | None, device: str) -> tuple[int, int, int]:
    """Return how many trainings run at a time, and the cores and GPUs of each.

    Args:
        nodes: Resources of each node, as Ray names them.
        parallel: Trainings at a time that are wanted.
        device: Of the trainings.
    """
    total = int(sum(node.get("GPU", 0) for node in nodes))
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device={device}: Ray chooses the GPU of each trial; give device=cuda")
    if device == "cuda" and not total:
        raise ConfigError("device=cuda: the Ray cluster has no GPU; use device=auto or device=cpu")
    gpus = 1 if total and device != "cpu" else 0

    def places(cores: int) -> int:
        fits = [int(node.get("CPU", 0)) // cores for node in nodes]
        return sum(min(fit, int(node.get("GPU", 0))) if gpus else fit for fit, node in zip(fits, nodes, strict=True))

    if not places(1):
        raise ConfigError("the Ray cluster has no node with a core: give `ray start` a larger --num-cpus")
    wanted = parallel or (total if gpus else sum(node.get("CPU", 0) >= 1 for node in nodes))
    count = min(wanted, places(1))
    cores = max(int(node.get("CPU", 0)) for node in nodes)
    while places(cores) < count:
        cores -= 1
    return count, cores, gpus
