"""Two source trees side by side, each with a worker process of its own; used by compare_runs.py and compare_speed.py.

A worker imports `slipstream` from its tree (PYTHONPATH) and runs in a folder outside both trees. It uses only names
that both trees share: the command line, the public names and the files' own readers. The trees may differ in everything
else.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SERVE = "--serve"
HERE = Path(__file__).resolve().parents[1]


class WorkerError(RuntimeError):
    """A case failed inside a worker, or the worker ended."""


class Worker:
    """A process that imports `slipstream` from `tree` and runs cases of `script` on request."""

    def __init__(self, script: str, tree: Path, role: str, folder: Path, env: dict[str, str] | None = None) -> None:
        self.tree, self.role, self.folder = tree.resolve(), role, folder
        self._command = [sys.executable, str(Path(script).resolve()), SERVE]
        self._env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        self._env |= {"PYTHONPATH": str(self.tree), "GOMP_SPINCOUNT": "1000"} | (env or {})
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def log(self) -> Path:
        """Everything that the cases print."""
        return self.folder / "log.txt"

    def call(self, case: str, **arguments: Any) -> Any:
        """Run one case and return its answer. A worker that has ended is started again.

        Raises:
            WorkerError: the case raised (with its traceback), or the process ended.
        """
        process = self._process or self._start()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps({"case": case, "arguments": arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = process.wait()
            self._process = None
            raise WorkerError(
                f"the worker of {self.tree} ended with status {code} in {case}; its output is in {self.log}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        with open(self.log, "a") as log:
            self._process = subprocess.Popen(
                [*self._command, str(self.tree), self.role],
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self._process


def serve(cases: dict[str, Callable[..., Any]]) -> None:
    """Answer the parent's requests until it closes the pipe. `cases` maps a name to a function of (role,
    **arguments)."""
    tree, role = Path(sys.argv[2]), sys.argv[3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the cases print goes to the log
    import slipstream

    if not Path(slipstream.__file__).resolve().is_relative_to(tree):
        raise SystemExit(f"slipstream was imported from {slipstream.__file__}, not from {tree}")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": cases[request["case"]](role, **request["arguments"])}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def command(words: Sequence[str]) -> str:
    """Run `slipstream WORDS` in this worker and return its standard output.

    Raises:
        RuntimeError: the exit status was not 0.
    """
    with open(Path(sys.argv[2]) / "pyproject.toml", "rb") as file:
        module, _, function = tomllib.load(file)["project"]["scripts"]["slipstream"].partition(":")
    main = getattr(importlib.import_module(module), function)
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(list(words))
    print(f"$ slipstream {' '.join(words)}\n{output.getvalue()}{errors.getvalue()}", file=sys.stderr, flush=True)
    if status:
        raise RuntimeError(f"slipstream {' '.join(words)}: exit status {status}: {errors.getvalue().strip()}")
    return output.getvalue()


@contextlib.contextmanager
def base_tree(commit: str | None, worktree: str | None) -> Iterator[Path]:
    """The tree to compare with: `worktree` as it is, or a temporary git worktree of `commit`."""
    if worktree:
        yield Path(worktree).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="slipstream-base-") as folder:
        path = Path(folder) / "tree"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(path), str(commit)], check=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def describe(tree: Path) -> str:
    """Commit of a tree, and whether files were changed."""
    command_line = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command_line, capture_output=True, text=True, check=True).stdout.strip()


def selected(names: Sequence[str], only: str | None) -> list[str]:
    """The cases that `--only` names (exactly, or as a prefix such as `replay`), or all."""
    if not only:
        return list(names)
    chosen = []
    for word in only.split(","):
        found = [name for name in names if name == word] or [name for name in names if name.startswith(word)]
        if not found:
            raise SystemExit(f"--only {word}: no such case; there are {', '.join(names)}")
        chosen += [name for name in found if name not in chosen]
    return chosen
