"""Search for better settings with Optuna: `Sweep`.

Optuna's own loop asks for trials and keeps the study, in a journal file in ROOT/NAME or in the storage of a URL. Every
trial is a training in a process of its own and an ordinary run folder. Several workers may share a storage: Optuna's
heartbeat finds the trials of one that has died.
"""

from __future__ import annotations

import json
import math
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from slipstream.config.compose import flat_settings, load_train, to_dict
from slipstream.config.help import ConfigError, nearest, show
from slipstream.distributed.multirun import STOP_CODES, Job, LocalStart, make_job, split_values
from slipstream.storage.files import WriterLock, make_folder, write_file
from slipstream.training.metrics_log import read_metrics
from slipstream.training.resume import RESUME_OVERRIDABLE
from slipstream.training.run_folder import check_name, config_yaml
from slipstream.ui.tables import TextTable, format_number, format_time

STEPS = 20  # a trial reports its evaluations at this many points of its time, so that trials can be compared there
WARM_UP = 6  # points before a trial may be pruned
STARTUP_TRIALS = 5  # complete trials before another one may be pruned
MAX_FAILED = 3  # trials that fail before any other result: the search ends
SHOWN = 5  # settings in the table
POLL_S = 0.5
HEARTBEAT_S = 30  # of workers that share a storage; a trial without two of them has failed
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
KINDS = "log(LOW,HIGH), uniform(LOW,HIGH), int(LOW,HIGH) or choice(A,B,...)"
SPACE = re.compile(r"(\w+)\((.*?)(\)?)$", re.DOTALL)  # no plain value begins like this
OF_TRIALS = {"total_frames", "max_time_s", "eval_interval", "init", "init_replay", "algo.data", "algo.teacher"}
MAY_DIFFER = set(RESUME_OVERRIDABLE) - OF_TRIALS  # of the commands of one search


@dataclass(frozen=True)
class Range:
    """The values of a key that are searched: `log(1e-4,3e-3)`, `uniform(0,1)`, `int(1,8)` or `choice(a,b)`."""

    key: str
    kind: str
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, key: str, text: str) -> Range | None:
        """Return the range that `text` describes; None if it is a plain value.

        Raises:
            ConfigError: It looks like a range but is none.
        """
        found = SPACE.match(text.strip())
        if not found:
            return None
        kind = found[1]
        values: tuple[Any, ...] = tuple(split_values(found[2]))
        try:
            if kind != "choice":
                low, high = values = tuple((int if kind == "int" else float)(value) for value in values)
                if kind not in ("int", "log", "uniform") or not -math.inf < low < high < math.inf:
                    raise ValueError
            if len(set(values)) != len(values) or len(values) < 2 or not found[3] or (kind == "log" and values[0] <= 0):
                raise ValueError
        except ValueError:
            raise ConfigError(f"{key}={text} is not a range: give {KINDS}, the smaller number first") from None
        return cls(key, kind, values)

    def __str__(self) -> str:
        return f"{self.kind}({','.join(map(str, self.values))})"

    def examples(self) -> list[Any]:
        """Return values that a training must accept: the choices, or both ends and a number between them."""
        if self.kind in ("choice", "int"):
            return list(self.values)
        low, high = self.values
        return [low, low + math.e / 10 * (high - low), high]

    def suggest(self, trial: Any) -> Any:
        """Return a value for a trial of Optuna."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.key, list(self.values))
        if self.kind == "int":
            return trial.suggest_int(self.key, *self.values)
        return trial.suggest_float(self.key, *self.values, log=self.kind == "log")

    def locate(self, value: Any) -> Any:
        """Return the value of this range that equals `value`, a setting; None if it has none."""
        if self.kind == "choice":
            return next((text for text in self.values if yaml.safe_load(text) == value), None)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return value if number and self.values[0] <= value <= self.values[1] else None


@dataclass
class Sweep:
    """A search for the settings with the best `objective`.

    Args:
        words: `key=value` words of a training; values such as `log(1e-4,3e-3)` are searched.
        folder: Where trials, study and results are kept. A folder with a study continues it.
        trials: Number of trials.
        objective: A metric of the log; its last value counts.
        minimize: Search for the lowest objective instead of the highest.
        prune: Stop trials that are worse than the median of the others at the same time.
        storage: URL of a database that several workers share (default: a journal file in `folder`, for one worker).
        parallel: Trials at a time.
    """

    words: Sequence[str]
    folder: Path
    trials: int = 30
    objective: str = "eval/success"
    minimize: bool = False
    prune: bool = True
    storage: str | None = None
    parallel: int = 1
    log: Callable[[str], None] = print
    ranges: list[Range] = field(init=False)
    common: list[str] = field(init=False)
    _error: Exception | None = field(init=False)

    def __post_init__(self) -> None:
        ranges: dict[str, Range] = {}
        self.common = []
        for word in map(str, self.words):
            key, _, text = word.partition("=")
            ranges.pop(key, None)  # of several values the last one counts
            if found := Range.parse(key, text):
                ranges[key] = found
            else:
                self.common.append(word)
        self.ranges = list(ranges.values())
        self.common = [word for word in self.common if word.partition("=")[0] not in ranges]
        if not self.ranges:
            raise ConfigError("nothing to search: give a key a range, like 'algo.learning_rate=log(1e-4,3e-3)'")
        for found in self.ranges:  # an error in the words is reported before anything starts
            for value in found.examples():
                load_train([*self.common, f"{found.key}={value}"])
        check_name(self.folder.name)
        self.given = load_train(self.common)
        if self.given.gpus is not None:
            from slipstream.distributed.launch import ranks_to_start

            ranks_to_start(self.given)
        if self.objective.startswith("eval/") and not self.given.eval_interval:
            raise ConfigError(f"objective={self.objective} needs evaluations: give eval_interval=20")
        self._stopped = threading.Event()
        self._failed, self._error = 0, None

    def run(self) -> dict[str, Any]:
        """Search, and write the best settings to best.yaml; return them.

        Raises:
            ConfigError: The folder holds another search, or the objective is in no log.
            BlockingIOError: Another process searches here.
            KeyboardInterrupt: It was interrupted; the same call continues.
        """
        make_folder(self.folder)
        with ExitStack() as stack:
            if self.storage is None:
                remedy = "wait until it ends or stop it; workers that share a search need storage=URL"
                stack.enter_context(WriterLock(self.folder, remedy))
            self.study = self._open_study()
            if threading.current_thread() is threading.main_thread():  # trials run in threads of Optuna
                for number in STOP_SIGNALS:
                    stack.callback(signal.signal, number, signal.signal(number, lambda *_: self._stopped.set()))
            self._search()
        return self._finish()

    # -- the study ---------------------------------------------------------------------------------------------------

    def _open_study(self) -> Any:
        optuna = import_optuna()
        try:
            study = optuna.create_study(
                storage=self._open_storage(optuna),
                study_name=self.folder.name,
                direction="minimize" if self.minimize else "maximize",
                sampler=optuna.samplers.TPESampler(constant_liar=True),
                pruner=optuna.pruners.MedianPruner(STARTUP_TRIALS, WARM_UP),
                load_if_exists=True,
            )
        except Exception as error:
            if self.storage is None:
                raise
            raise ConfigError(f"storage={self.storage} cannot be opened: {str(error).splitlines()[0]}") from error
        settings = json.loads(json.dumps(flat_settings(to_dict(self.given))))  # as a study keeps them
        mine = {key: value for key, value in settings.items() if key not in MAY_DIFFER}
        mine |= {found.key: str(found) for found in self.ranges}
        mine |= {"objective": self.objective, "direction": "min" if self.minimize else "max"}
        before = study.user_attrs.get("search")
        if before is None and study.trials:
            raise ConfigError(
                f"{self.folder.name} in this storage is not a search of `slipstream sweep`: give another name="
            )
        if before is None:
            study.set_user_attr("search", mine)
            start = {found.key: found.locate(settings.get(found.key)) for found in self.ranges}
            if None not in start.values():  # the settings as they were given are the first trial
                study.enqueue_trial(start, user_attrs={"given": True}, skip_if_exists=True)
        for key in before | mine if before else ():
            if before.get(key) != mine.get(key):
                raise ConfigError(
                    f"{self.folder} holds another search, with {key}={show(before.get(key))}, not "
                    f"{show(mine.get(key))}: repeat its command, or give another name="
                )
        return study

    def _open_storage(self, optuna: Any) -> Any:
        """Return the storage of the study; its trials of a worker that was killed are failed ones."""
        if self.storage is not None:
            with suppress(Exception):  # another worker may make its tables at this moment
                return optuna.storages.RDBStorage(self.storage, heartbeat_interval=HEARTBEAT_S)
            return optuna.storages.RDBStorage(self.storage, heartbeat_interval=HEARTBEAT_S)
        journal, path = optuna.storages.journal, str(self.folder / "journal.log")
        backend = journal.JournalFileBackend(path, lock_obj=journal.JournalFileOpenLock(path))
        storage = optuna.storages.JournalStorage(backend)
        for study in storage.get_all_studies():
            for trial in storage.get_all_trials(study._study_id, states=(optuna.trial.TrialState.RUNNING,)):
                storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
        return storage

    def _of_state(self, *names: str) -> list[Any]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.state.name in names]

    # -- trials ------------------------------------------------------------------------------------------------------

    def _search(self) -> None:
        """Run trials until there are enough, `parallel` at a time."""
        self._start, self._started = LocalStart(self.parallel, self.given, to_file=True), time.monotonic()
        left = self.trials - len(self._of_state("COMPLETE", "PRUNED"))
        if left > 0:
            self.study.optimize(
                self._train, left, n_jobs=self.parallel, catch=(ChildProcessError,), callbacks=[self._report]
            )
        if self._stopped.is_set():
            raise KeyboardInterrupt
        if self._error is not None:
            raise self._error

    def _train(self, trial: Any) -> float:
        """Train with the settings that a trial suggests; return the objective."""
        optuna, words = import_optuna(), [*self.common]
        words += [f"{found.key}={found.suggest(trial)}" for found in self.ranges]
        for same in self._of_state("COMPLETE"):
            if same.params == trial.params:  # known already: not trained again
                return float(same.value)
        job = make_job(self.folder, f"trial_{trial.number:04d}", words)
        process = self._start(job)
        try:
            while process.poll() is None and not self._stopped.is_set():
                if self.prune and self._falls_behind(trial, job):
                    raise optuna.TrialPruned
                time.sleep(POLL_S)
        finally:
            process.terminate()  # if it still runs: it saves first
            code = process.wait()
        if self._stopped.is_set() or code in STOP_CODES:
            self._stopped.set()
            raise KeyboardInterrupt
        if code:
            raise ChildProcessError(job.name)
        points, known = self._points(job)
        if not points:
            hint = f"{nearest(self.objective, known)}; its log has: {', '.join(known)}"
            self._error = ConfigError(f"the trial logged no '{self.objective}'{hint}")
            raise self._error
        return points[-1][1]

    def _points(self, job: Job) -> tuple[list[tuple[float, float]], list[str]]:
        """Return the (share of the time, objective) of every row that has it, and the names of the metrics of a run."""
        rows = read_metrics(job.folder) if (job.folder / "metrics.jsonl").exists() else []
        found = []
        for row in rows:
            if row.get(self.objective) is not None:
                by_time = row["time_s"] / self.given.max_time_s if self.given.max_time_s else 0.0
                found.append((min(1.0, max(by_time, row["frames"] / self.given.total_frames)), row[self.objective]))
        return found, list(rows[-1] if rows else ())

    def _falls_behind(self, trial: Any, job: Job) -> bool:
        """Report the new evaluations of a running trial; return whether it is to be stopped now."""
        known = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        new = {step: value for share, value in self._points(job)[0] if (step := int(share * STEPS)) < STEPS}
        unreported = new.keys() - known.keys()
        for step in unreported:
            trial.report(new[step], step)
        return bool(unreported) and bool(trial.should_prune())

    def _report(self, study: Any, trial: Any) -> None:
        """Print the result of a trial, and end a search that has enough of them, or only failures."""
        ended, state = self._of_state("COMPLETE", "PRUNED"), trial.state.name.lower()
        value = "" if trial.value is None else f" {format_number(trial.value)}"
        settings = " ".join(f"{key}={_short(value)}" for key, value in trial.params.items())
        elapsed = format_time(time.monotonic() - self._started)
        self.log(f"[{len(ended)}/{self.trials}] trial {trial.number}: {state}{value}  {settings}; {elapsed} elapsed")
        self._failed += state == "fail"
        if not ended and self._failed >= MAX_FAILED:
            self._error = ChildProcessError(f"the first {MAX_FAILED} trials failed, see {self.folder}/trial_*.log")
        if len(ended) >= self.trials or self._error is not None:
            study.stop()

    def _finish(self) -> dict[str, Any]:
        """Write best.yaml; return the best settings."""
        if not self._of_state("COMPLETE"):
            raise ChildProcessError(f"no trial of this search was completed, see {self.folder}/trial_*.log")
        best = self.study.best_trial.params
        words = [*self.common, *(f"{key}={value}" for key, value in best.items())]
        left_out = ("name", "root", "resume", "init", "init_replay")
        settings = {k: v for k, v in to_dict(load_train(words)).items() if k not in left_out}
        write_file(self.folder / "best.yaml", config_yaml(settings).encode())
        return dict(best)

    def table(self) -> TextTable:
        """Return the best settings of a finished search, and the given ones."""
        done = sorted(self._of_state("COMPLETE"), key=lambda trial: trial.value, reverse=not self.minimize)
        keys = [found.key for found in self.ranges]
        rows = [
            [f"trial {t.number}{' (given)' * is_given}", *(_short(t.params[k]) for k in keys), format_number(t.value)]
            for place, t in enumerate(done)
            if (is_given := t.user_attrs.get("given", False)) or place < SHOWN
        ]
        heads = ["trial", *keys, self.objective]
        return TextTable(f"best settings by {self.objective}", heads, rows, left=1 + len(keys))


def import_optuna() -> Any:
    """Return Optuna; ImportError says how to get it."""
    try:
        import optuna
    except ImportError:
        raise ImportError("a search needs Optuna: pip install -e '.[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
