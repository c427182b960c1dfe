"""The scripts on docs/clusters.md, run with a scheduler and commands that only write down how they were called."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml

from slipstream import cli
from slipstream.config.compose import load_train
from slipstream.training.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")
BLOCKS = {name: code for name, code in re.findall(r'```\w+ title="([\w.]+)"\n(.*?)```', PAGE, re.DOTALL)}
FAKES = {
    "srun": 'exec "$@"',
    "slipstream": 'echo "$@" >> "$CALLS"; exit "$CODE"',
    "torchrun": 'echo torchrun "$@" >> "$CALLS"; exit "$CODE"',
    "scontrol": 'case $1 in show) printf "node1\\nnode2\\n";; *) echo scontrol "$@" >> "$CALLS";; esac',
}
SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_NAME": "base",
    "SLURM_ARRAY_JOB_ID": "70",
    "SLURM_ARRAY_TASK_ID": "3",
    "SLURM_NNODES": "2",
    "SLURM_JOB_NODELIST": "node[1-2]",
    "SLURM_GPUS_ON_NODE": "8",
}


@pytest.fixture
def submit(tmp_path):
    """Run a batch script of the page; return its exit code and what it called."""
    (tmp_path / "bin").mkdir()
    for name, body in FAKES.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def submit(name, code):
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls), "CODE": str(code)}
        env |= {"SLURM_SUBMIT_DIR": str(tmp_path), **SLURM}
        (tmp_path / name).write_text(BLOCKS[name])
        assert subprocess.run(["bash", "-n", name], cwd=tmp_path).returncode == 0
        done = subprocess.run(["bash", "-u", name], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.stderr == ""
        return done.returncode, calls.read_text().splitlines()

    return submit


def test_the_page_has_these_scripts():
    assert sorted(BLOCKS) == ["job.yaml", "nodes.sbatch", "seeds.sbatch", "submit.py", "train.sbatch"]


@pytest.mark.parametrize(
    ("name", "run", "job"), [("train.sbatch", "name=base", "77"), ("seeds.sbatch", "seed=3 name=base-3", "70_3")]
)
def test_a_stopped_job_is_requeued_and_no_other(submit, tmp_path, name, run, job):
    for code in (0, 2, 75):
        result, calls = submit(name, code)
        requeued = [f"scontrol requeue {job}"] if code == 75 else []
        assert (result, calls) == (code, [f"train preset=h200 {run} root={tmp_path}/runs resume=auto", *requeued])
    assert load_train(calls[0].split()[1:]).resume == "auto"


def test_a_job_on_several_nodes_looks_at_the_status(submit, tmp_path):
    run = RunFolder.at(tmp_path / "runs", "wide")
    for state, requeued in (("interrupted", ["scontrol requeue 77"]), ("finished", []), ("failed", [])):
        run.write_status(state, 1, 64)
        code, (call, *others) = submit("nodes.sbatch", 1)
        assert (code, others) == (1, requeued)
    assert "--nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=node1:29500 --rdzv-id=77" in call
    assert load_train(call.partition(" -m slipstream train ")[2].split()).name == "wide"


def test_the_kubernetes_job_trains_and_knows_the_exit_codes():
    job = yaml.safe_load(BLOCKS["job.yaml"])["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert container["command"][:2] == ["slipstream", "train"]
    cfg = load_train(container["command"][2:])
    assert (cfg.resume, cfg.root) == ("auto", container["volumeMounts"][0]["mountPath"])
    codes = {code: rule["action"] for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule
             for code in rule["onExitCodes"]["values"]}  # fmt: skip
    assert codes == {2: "FailJob", 75: "Ignore"}
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # podFailurePolicy needs it


def test_submitit_gets_a_run_that_it_may_submit_again(monkeypatch):
    jobs, trained = [], []

    class Executor:
        def __init__(self, folder):
            self.folder = folder

        def update_parameters(self, **settings):
            assert settings["timeout_min"] > 0

        def submit(self, job):
            jobs.append(job)

    again = types.SimpleNamespace(DelayedSubmission=lambda job: ("again", job))
    monkeypatch.setitem(sys.modules, "submitit", types.SimpleNamespace(AutoExecutor=Executor, helpers=again))
    monkeypatch.setattr(cli, "main", lambda argv: trained.append(argv) or 0)
    exec(compile(BLOCKS["submit.py"], "submit.py", "exec"), {"__name__": "submit"})
    assert len(jobs) == 5 and jobs[2].checkpoint() == ("again", jobs[2])
    assert jobs[2]() == 0
    cfg = load_train(trained[0][1:])
    assert (cfg.resume, cfg.name, cfg.seed, json.dumps(cfg.save_minutes)) == ("auto", "base-2", 2, "1.0")
