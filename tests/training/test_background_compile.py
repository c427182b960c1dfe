"""A training that begins as graphs and changes to compiled kernels; small programs stand for the process that compiles."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from torch._inductor.runtime.runtime_utils import default_cache_dir

from slipstream.algorithms.execution.compile import use_compiler_cache
from slipstream.config.compose import load_train
from slipstream.training import background_compile
from slipstream.training.background_compile import KernelCompiler, can_compile_beside

NEXT = [sys.executable, "-c"]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", "restored")
    monkeypatch.delenv("TRITON_CACHE_DIR")


class FakeTrainer:
    """As much of a Trainer as the compiler's process is chosen by."""

    def __init__(self, *words, mode="compiled", ranks=False, runs_ahead=False):
        self.cfg = load_train(["env.num_envs=8", *words])
        self.env = SimpleNamespace(device=torch.device("cpu"))
        self.ranks = SimpleNamespace(sums=sum if ranks else None)
        self.collector = SimpleNamespace(runs_ahead=runs_ahead)
        self.execution_mode = lambda: mode
        self.modes = []

    def capture(self, log, mode=None):
        self.modes.append(mode or self.execution_mode())


def finish(kernels):
    kernels._process.wait()
    kernels.poll()


def test_a_training_changes_when_the_kernels_are_compiled(monkeypatch, tmp_path):
    script = f"import sys; open({str(tmp_path / 'config')!r}, 'wb').write(sys.stdin.buffer.readline())"
    monkeypatch.setattr(background_compile, "COMMAND", [*NEXT, script])
    trainer, lines = FakeTrainer("seed=7"), []
    with KernelCompiler(trainer, lines.append) as kernels:
        assert trainer.modes == ["graphs"]
        kernels.poll()
        finish(kernels)
        assert trainer.modes == ["graphs", "compiled"]
        kernels.poll()
        kernels.poll()
    assert trainer.modes == ["graphs", "compiled"] and len(lines) == 3
    assert json.loads((tmp_path / "config").read_bytes())["seed"] == 7
    with KernelCompiler(other := FakeTrainer("seed=8", "max_time_s=99"), lines.append) as kernels:  # from the cache now
        kernels.poll()
        assert other.modes == ["graphs", "compiled"] and kernels._process is None
    with KernelCompiler(other := FakeTrainer("algo.clip=0.3"), lines.append) as kernels:  # other kernels
        kernels.poll()
        assert other.modes == ["graphs"] and kernels._process is not None


STAYS = {  # the command of the other process, and why the training stays as it is
    "no memory": [*NEXT, "raise SystemExit('no memory')"],
    "-9": [*NEXT, "import os; os.kill(os.getpid(), 9)"],
    "/no/such/program": ["/no/such/program"],
    "no end": ["sleep", "600"],
}


@pytest.mark.parametrize(("reason", "command"), STAYS.items())
def test_without_its_kernels_a_training_stays_as_it_is(monkeypatch, command, reason):
    monkeypatch.setattr(background_compile, "COMMAND", command)
    trainer, lines = FakeTrainer(), []
    with KernelCompiler(trainer, lines.append) as kernels:
        kernels.poll()
        process = kernels._process
        if reason == "no end":
            monkeypatch.setattr(background_compile, "LIMIT_S", -1)
        elif process is not None:
            process.wait()
        kernels.poll()
        kernels.poll()
        assert kernels._process is None and (process is None or process.returncode is not None)
    assert trainer.modes == ["graphs"] and reason in lines[-1] and len(lines) == 1 + (process is not None)


@pytest.mark.parametrize("reason", ["memory", "my class"])
def test_without_another_process_it_compiles_itself(monkeypatch, reason):
    fails = f"import sys; print('my class', file=sys.stderr); sys.exit({background_compile.NOT_BUILT})"
    monkeypatch.setattr(background_compile, "COMMAND", [*NEXT, fails])
    monkeypatch.setattr(background_compile, "has_memory_for_two", lambda device: reason != "memory")
    trainer, lines = FakeTrainer(), []
    with KernelCompiler(trainer, lines.append) as kernels:
        kernels.poll()
        if kernels._process is not None:
            finish(kernels)
    assert trainer.modes == ["graphs", "compiled"] and reason in lines[-1] and len(lines) == 1 + (reason != "memory")


def test_the_end_of_a_training_ends_all_processes(monkeypatch):
    child = "import subprocess, sys; p = subprocess.Popen(['sleep', '600'], stdout=2); print(p.pid, file=sys.stderr, flush=True); p.wait()"
    monkeypatch.setattr(background_compile, "COMMAND", [*NEXT, child])
    with KernelCompiler(FakeTrainer(), lambda text: None) as kernels:
        kernels.poll()
        process, pids = kernels._process, b""
        while not pids.endswith(b"\n"):
            pids = os.pread(process.stderr.fileno(), 100, 0)
    assert process.returncode == -signal.SIGKILL
    while is_alive(int(pids)):
        pass


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_other_process_ends_with_its_input(monkeypatch, tmp_path):
    """As after kill -9 of the training. Importing torch's compiler has set TORCHINDUCTOR_CACHE_DIR to torch's default."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = """if True:
        import os, time, torch, slipstream.train
        from slipstream.training import background_compile, trainer

        def build(cfg):
            trainer.use_compiler_cache(torch.device("cpu"))
            print(os.environ["TORCHINDUCTOR_CACHE_DIR"], flush=True)
            time.sleep(600)

        background_compile.Trainer = build
        background_compile.main()"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([*NEXT, script], start_new_session=True, text=True, **pipes)
    print(json.dumps(background_compile.to_dict(FakeTrainer().cfg)), file=process.stdin, flush=True)
    assert Path(process.stdout.readline()).parent == tmp_path / "slipstream" / "compiler"
    process.stdin.close()
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        (lambda: FakeTrainer(), True),
        (lambda: FakeTrainer("compile=on"), False),  # compiled from the first iteration on
        (lambda: FakeTrainer(mode="graphs"), False),
        (lambda: FakeTrainer(ranks=True), False),
        (lambda: FakeTrainer(runs_ahead=True), False),
    ],
)
def test_one_training_of_a_gpu_begins_before_its_kernels(trainer, expected):
    made = trainer()
    assert can_compile_beside(made) == expected
    with KernelCompiler(made, print):
        assert made.modes == ["graphs" if expected else made.execution_mode()]


def test_kernels_are_kept_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", "/own")
        use_compiler_cache(torch.device("cpu"))
        assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ and os.environ["TRITON_CACHE_DIR"] == "/own"
    use_compiler_cache(torch.device("cpu"))
    folder = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert folder.parent == tmp_path / "slipstream" / "compiler" and f"cpu-torch{torch.__version__}" in folder.name
    assert os.environ["TRITON_CACHE_DIR"] == str(folder / "triton")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", default_cache_dir())  # both as torch sets them
    monkeypatch.setenv("TRITON_CACHE_DIR", f"{default_cache_dir()}/triton/0")
    use_compiler_cache(torch.device("cpu"))
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(folder)
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.delenv("TRITON_CACHE_DIR")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)  # a read-only home, with the folder in it
        use_compiler_cache(torch.device("cpu"))
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    (tmp_path / "file").touch()
    use_compiler_cache(torch.device("cpu"))  # cannot be made: torch's own
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ


@pytest.mark.parametrize(
    ("fails_to", "error", "code"),
    [
        ("build", ValueError("no kernel"), background_compile.NOT_BUILT),
        ("step", ValueError("no kernel"), 1),
        ("step", torch.OutOfMemoryError("no kernel"), background_compile.NOT_BUILT),
        ("", None, 0),
    ],
)
def test_a_process_that_fails_says_why(monkeypatch, capfd, fails_to, error, code):
    def leave(code):
        raise SystemExit(code)

    trainer = Mock(**{"env.device": torch.device("cpu"), "step.side_effect": error if fails_to == "step" else None})
    build = Mock(return_value=trainer, side_effect=error if fails_to == "build" else None)
    monkeypatch.setattr(background_compile, "Trainer", build)
    monkeypatch.setattr(background_compile, "from_dict", dict)
    monkeypatch.setattr(background_compile, "end_with_input", lambda: None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"{}\n")))
    monkeypatch.setattr(os, "nice", lambda level: None)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit) as ended:
        background_compile.main()
    assert ended.value.code == code and capfd.readouterr().err.strip().endswith("no kernel" if code else "")
