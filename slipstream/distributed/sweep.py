"""Search for better settings with Optuna: `Sweep`.

Every trial is a training in a process of its own and an ordinary run folder inside ROOT/NAME. The study is a journal
file in the same folder, or any Optuna storage. Several workers may search in one study: each holds a lock, and a worker
that finds a trial whose holder has died continues that trial from its last checkpoint.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from slipstream.config.compose import flat_settings, load_train, to_dict
from slipstream.config.help import ConfigError, nearest, show
from slipstream.distributed.multirun import STOP_CODES, Job, LocalStart, Process, run_jobs, split_values, wait_for_lock
from slipstream.storage.files import WriterLock, make_folder, write_file
from slipstream.training.comparison import describe
from slipstream.training.metrics_log import read_metrics
from slipstream.training.resume import RESUME_OVERRIDABLE
from slipstream.training.run_folder import config_yaml
from slipstream.ui.figures import SERIES, finish_figure, new_figure, style_axes, style_legend
from slipstream.ui.tables import TextTable, format_number, format_percent, format_time

STEPS = 20  # a trial reports its evaluations at this many points of its time, so that trials can be compared there
WARM_UP = 6  # points before a trial may be pruned
STARTUP_TRIALS = 5  # complete trials before another one may be pruned
MAX_FAILED = 3  # trials that fail before any other result: the search ends
FINALISTS = 3  # settings that are trained again with other seeds
POLL_S = 0.5
KINDS = ("log(LOW,HIGH)", "uniform(LOW,HIGH)", "int(LOW,HIGH)", "choice(A,B)")
SPACE = re.compile(r"(log|uniform|int|choice)\((.*)\)$", re.DOTALL)
MAY_DIFFER = set(RESUME_OVERRIDABLE) - {"total_frames", "max_time_s"}  # of the commands of one search
SURPLUS = "surplus"  # mark of a trial that two workers asked for at the same time as the last one


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
            if re.match(r"\w+\(", text):  # no value begins like this
                raise ConfigError(f"{key}={text} is not a range: give {', '.join(KINDS[:-1])} or {KINDS[-1]}")
            return None
        kind, parts = found[1], split_values(found[2])
        if kind == "choice":
            if len(parts) < 2 or len(set(parts)) < len(parts):
                raise ConfigError(f"{key}={text}: choice(...) takes two or more different values")
            return cls(key, kind, tuple(parts))
        convert = int if kind == "int" else float
        try:
            low, high = (convert(part) for part in parts)
        except ValueError:
            raise ConfigError(
                f"{key}={text}: {kind}(...) takes two numbers, like {kind}({'1,8' if kind == 'int' else '0.001,0.1'})"
            ) from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high and (kind != "log" or low > 0)):
            positive = " above 0" if kind == "log" else ""
            raise ConfigError(f"{key}={text}: give the smaller number first, both finite{positive}")
        return cls(key, kind, (low, high))

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
        budget_s: Training time per trial, in seconds; 0 leaves it to the words.
        minimize: Search for the lowest objective instead of the highest.
        prune: Stop trials that are worse than the median of the others at the same time.
        repeats: Seeds with which the best settings, and those that were given, are trained again.
        storage: URL of an Optuna storage (default: a journal file in `folder`).
        parallel: Trials at a time.
    """

    words: Sequence[str]
    folder: Path
    trials: int = 30
    objective: str = "eval/success"
    budget_s: float = 0.0
    minimize: bool = False
    prune: bool = True
    repeats: int = 3
    storage: str | None = None
    parallel: int = 1
    log: Callable[[str], None] = print
    ranges: list[Range] = field(init=False)
    common: list[str] = field(init=False)

    def __post_init__(self) -> None:
        parsed = {str(word): Range.parse(*str(word).partition("=")[::2]) for word in self.words}
        last = {
            word.partition("=")[0]: found for word, found in parsed.items()
        }  # of several values the last one counts
        self.ranges = [found for found in last.values() if found is not None]
        self.common = [word for word, found in parsed.items() if found is None and not last[word.partition("=")[0]]]
        if not self.ranges:
            raise ConfigError("nothing to search: give a key a range, like 'algo.learning_rate=log(1e-4,3e-3)'")
        if self.budget_s:
            self.common.append(f"max_time_s={self.budget_s:g}")
        for found in self.ranges:  # an error in the words is reported before anything starts
            for value in found.values:
                load_train([*self.common, f"{found.key}={value}"])
            if found.kind in ("log", "uniform"):
                low, high = found.values
                try:
                    load_train([*self.common, f"{found.key}={low + math.e / 10 * (high - low)}"])
                except ConfigError as error:
                    raise ConfigError(f"{error}: use int({low:g},{high:g}), or choice(...)") from None
        self.given = load_train(self.common)
        if self.given.gpus is not None:
            from slipstream.distributed.launch import ranks_to_start

            ranks_to_start(self.given)
        if self.objective.startswith("eval/") and not self.given.eval_interval:
            raise ConfigError(f"objective={self.objective} needs evaluations: give eval_interval=20")

    def run(self) -> dict[str, Any]:
        """Search, repeat the best settings, and write the results; return the best settings.

        Raises:
            ConfigError: The folder holds another search, or the objective is in no log.
            KeyboardInterrupt: It was interrupted; the same call continues.
        """
        with ExitStack() as stack:
            if threading.current_thread() is threading.main_thread():  # as Ctrl-C: trainings save first
                stack.callback(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
                signal.signal(signal.SIGTERM, signal.default_int_handler)
            make_folder(self.folder)
            with self._worker() as worker:
                self.study = self._open_study()
                self._search(worker)
            return self._finish()

    # -- the study ---------------------------------------------------------------------------------------------------

    def _open_study(self) -> Any:
        optuna = import_optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage: Any = self.storage
        if storage is None:
            journal = optuna.storages.journal
            path = str(self.folder / "journal.log")
            backend = journal.JournalFileBackend(path, lock_obj=journal.JournalFileOpenLock(path))
            storage = optuna.storages.JournalStorage(backend)
        pruner = optuna.pruners.MedianPruner(STARTUP_TRIALS, WARM_UP) if self.prune else optuna.pruners.NopPruner()
        try:
            study = optuna.create_study(
                storage=storage,
                study_name=self.folder.name,
                direction="minimize" if self.minimize else "maximize",
                sampler=optuna.samplers.TPESampler(constant_liar=True),
                pruner=pruner,
                load_if_exists=True,
            )
        except Exception as error:
            if self.storage is None:
                raise
            raise ConfigError(f"storage={self.storage} cannot be opened: {str(error).splitlines()[0]}") from error
        settings = json.loads(json.dumps(flat_settings(to_dict(self.given))))  # as a study keeps them
        mine = {key: value for key, value in settings.items() if key not in MAY_DIFFER}
        mine |= {r.key: f"{r.kind}({','.join(map(str, r.values))})" for r in self.ranges}
        mine |= {"objective": self.objective, "direction": "min" if self.minimize else "max"}
        before = study.user_attrs.get("search")
        if before is None:
            study.set_user_attr("search", mine)
            start = {r.key: r.locate(settings.get(r.key)) for r in self.ranges}
            if None not in start.values():  # the settings as they were given are the first trial
                study.enqueue_trial(start, user_attrs={"given": True}, skip_if_exists=True)
        for key in before | mine if before else ():
            if before.get(key) != mine.get(key):
                raise ConfigError(
                    f"{self.folder} holds another search, with {key}={show(before.get(key))}, not "
                    f"{show(mine.get(key))}: repeat its command, or give another name="
                )
        return study

    @contextmanager
    def _worker(self) -> Iterator[str]:
        """Yield the name of this worker, which holds a lock as long as it lives."""
        name = uuid.uuid4().hex[:12]
        with WriterLock(_made(self.folder / ".workers" / name)):
            yield name
        shutil.rmtree(self.folder / ".workers" / name, ignore_errors=True)

    def _left_trials(self, stack: ExitStack, worker: str) -> list[Any]:
        """Take over the trials of workers that have died."""
        taken, dead = [], {worker: False}
        for frozen in self._of_state("RUNNING"):
            holder = frozen.user_attrs.get("worker", "unknown")
            if holder not in dead:
                try:  # of two workers that find a trial only one gets the lock
                    stack.enter_context(WriterLock(_made(self.folder / ".workers" / holder)))
                    dead[holder] = True
                except BlockingIOError:
                    dead[holder] = False
            if dead[holder]:
                trial = import_optuna().trial.Trial(self.study, frozen._trial_id)
                taken.append(self._claim(trial, worker))
        return taken

    def _of_state(self, *names: str) -> list[Any]:
        found = self.study.get_trials(deepcopy=False)
        return [trial for trial in found if trial.state.name in names and SURPLUS not in trial.user_attrs]

    # -- trials ------------------------------------------------------------------------------------------------------

    def _search(self, worker: str) -> None:
        """Run trials until there are enough, `parallel` at a time."""
        start = LocalStart(self.parallel, self.given, to_file=True)
        running: dict[Process, tuple[Any, Job]] = {}
        self._started = time.monotonic()
        turn = _made(self.folder / ".workers" / "turn")  # a trial that is asked for has no worker for a moment
        with ExitStack() as locks:
            with wait_for_lock(turn):
                left = self._left_trials(locks, worker)
            if left:
                self.log(f"continuing {len(left)} interrupted trials")
            try:
                while True:
                    while len(running) < self.parallel:
                        with wait_for_lock(turn):
                            trial = left.pop(0) if left else self._ask(worker)
                        if trial is None:
                            break
                        job = self._job(trial)
                        running[start(job)] = (trial, job)
                    if not running:
                        return
                    for process in list(running):
                        if (code := process.poll()) is not None:
                            self._tell(*running.pop(process), code)
                    for process, (trial, job) in running.items():
                        if self.prune and self._falls_behind(trial, job):
                            process.terminate()
                    time.sleep(POLL_S)
            finally:
                for process in running:
                    process.terminate()  # it saves a checkpoint, from which the next start continues
                for process in running:
                    process.wait()

    def _ask(self, worker: str) -> Any:
        """Return a new trial; None if there are enough."""
        failed = import_optuna().trial.TrialState.FAIL
        while len(self.study.get_trials(deepcopy=False)) < self.trials or self._of_state("WAITING"):
            trial = self.study.ask()
            if trial.number >= self.trials:  # another worker was faster
                trial.set_user_attr(SURPLUS, True)
                self.study.tell(trial, state=failed)
                return None
            self._claim(trial, worker)
            same = [t for t in self._of_state("COMPLETE") if t.params == trial.params]
            if not same:
                return trial
            self.study.tell(trial, same[0].value)  # known already: not trained again
            self.log(f"trial {trial.number}: the settings of trial {same[0].number}")
        return None

    def _claim(self, trial: Any, worker: str) -> Any:
        """Make a trial one of this worker. Values that it has not got yet are chosen."""
        trial.set_user_attr("worker", worker)
        for found in self.ranges:
            found.suggest(trial)
        return trial

    def _job(self, trial: Any) -> Job:
        name = f"trial_{trial.number:04d}"
        words = [*self.common, *(f"{key}={value}" for key, value in trial.params.items())]
        return Job(name, [*words, f"root={self.folder}", f"name={name}"], self.folder / name)

    def _points(self, folder: Path) -> tuple[list[tuple[float, float]], list[str]]:
        """Return the (share of the time, objective) of every row that has it, and the names of the metrics of a run."""
        rows = read_metrics(folder) if (folder / "metrics.jsonl").exists() else []
        found = []
        for row in rows:
            if row.get(self.objective) is not None:
                by_time = row["time_s"] / self.given.max_time_s if self.given.max_time_s else 0.0
                found.append((min(1.0, max(by_time, row["frames"] / self.given.total_frames)), row[self.objective]))
        return found, list(rows[-1] if rows else ())

    def _falls_behind(self, trial: Any, job: Job) -> bool:
        """Report the new evaluations of a running trial; return whether it is to be stopped now."""
        if "pruned" in trial.user_attrs:
            return False
        known = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        new = {step: value for share, value in self._points(job.folder)[0] if (step := int(share * STEPS)) < STEPS}
        unreported = new.keys() - known.keys()
        for step in unreported:
            trial.report(new[step], step)
        if not unreported or not trial.should_prune():
            return False
        trial.set_user_attr("pruned", True)
        return True

    def _tell(self, trial: Any, job: Job, code: int) -> None:
        """Store the result of a trial that ended."""
        state = import_optuna().trial.TrialState
        pruned = "pruned" in trial.user_attrs
        if code in STOP_CODES and not pruned:
            raise KeyboardInterrupt
        points, known = self._points(job.folder)
        if pruned:
            frozen = self.study.tell(trial, state=state.PRUNED)
            result = f"pruned at {format_number(frozen.intermediate_values[step_reached(frozen)])}"
        elif code or not points:
            self.study.tell(trial, state=state.FAIL)
            if not code:
                raise ConfigError(
                    f"the trial logged no '{self.objective}'{nearest(self.objective, known)}; its log has: {', '.join(known)}"
                )
            result = f"failed, see {self.folder / (job.name + '.log')}"
        else:
            self.study.tell(trial, points[-1][1])
            result = format_number(points[-1][1])
        ended, done = self._of_state("COMPLETE", "PRUNED", "FAIL"), self._of_state("COMPLETE")
        settings = " ".join(f"{key}={_short(value)}" for key, value in trial.params.items())
        best = f"; best {format_number(self.study.best_value)} (trial {self.study.best_trial.number})" if done else ""
        elapsed = format_time(time.monotonic() - self._started)
        if len(ended) == MAX_FAILED == len(self._of_state("FAIL")):
            raise ChildProcessError(f"the first {MAX_FAILED} trials failed{self._failure()}")
        self.log(f"[{len(ended)}/{self.trials}] trial {trial.number}: {result}  {settings}{best}; {elapsed} elapsed")

    # -- results -----------------------------------------------------------------------------------------------------

    def _finish(self) -> dict[str, Any]:
        """Repeat the best settings, and write tables, figures and best.yaml."""
        done = sorted(self._of_state("COMPLETE"), key=lambda trial: trial.value, reverse=not self.minimize)
        if not done:
            raise ChildProcessError(f"no trial of this search was completed{self._failure()}")
        if any(trial.state.name == "RUNNING" for trial in self.study.get_trials(deepcopy=False)):
            self.log("other workers still search: the last one writes the results")
            return {}
        finalists = list({str(t.params): t for t in reversed(done)}.values())[::-1][:FINALISTS]
        finalists += [t for t in done if t.user_attrs.get("given") and t not in finalists]
        try:
            with WriterLock(_made(self.folder / ".workers" / "results")):
                scores = self._repeat(finalists)
        except BlockingIOError:
            self.log("another worker repeats the best settings and writes the results")
            return {}
        sign = -1.0 if self.minimize else 1.0
        best = max(finalists, key=lambda t: sign * _mean(scores[t.number], t.value))
        words = [*self.common, *(f"{key}={value}" for key, value in best.params.items())]
        left_out = ("name", "root", "resume", "init", "init_replay")
        settings = {k: v for k, v in to_dict(load_train(words)).items() if k not in left_out}
        write_file(self.folder / "best.yaml", config_yaml(settings).encode())
        self.best, self.scores, self.finalists, self.done = best, scores, finalists, done
        draw_history(self.study, self.objective, self.folder / "history.png")
        self.importances = importances(self.study)
        if self.importances:
            draw_importances(self.importances, self.objective, self.folder / "importances.png")
        return dict(best.params)

    def _failure(self) -> str:
        """Return the last line of the output of the first trial that failed, and where it is."""
        failed = self._of_state("FAIL")
        path = self.folder / f"trial_{failed[0].number:04d}.log" if failed else self.folder
        lines = path.read_text(errors="replace").split("\n") if path.is_file() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last[:300]} (see {path})" if last else f" (see {path})"

    def _repeat(self, finalists: Sequence[Any]) -> dict[int, list[float]]:
        """Train the settings of some trials with other seeds; return their objectives by trial."""
        seeds = [self.given.seed + k for k in range(1, self.repeats + 1)]
        jobs = {}
        for trial in finalists:
            for seed in seeds:
                job = self._job(trial)
                name = f"repeat_{trial.number:04d}_seed_{seed}"
                words = [word for word in job.words if word.partition("=")[0] not in ("name", "seed")]
                jobs[trial.number, seed] = Job(name, [*words, f"seed={seed}", f"name={name}"], self.folder / name)
        known = self.study.user_attrs
        missing = [job for job in jobs.values() if job.name not in known]
        if missing:
            self.log(f"training the {len(finalists)} best settings again with {self.repeats} other seeds")
            run_jobs(missing, self.parallel, LocalStart(self.parallel, self.given))
        for job in missing:
            points, _ = self._points(job.folder)
            self.study.set_user_attr(job.name, points[-1][1])
        known = self.study.user_attrs
        return {t.number: [known[jobs[t.number, seed].name] for seed in seeds] for t in finalists}

    def tables(self) -> list[TextTable]:
        """Return the tables of a finished search: the best settings, and what matters."""
        keys = [found.key for found in self.ranges]
        rows = []
        for trial in self.finalists:
            scores = self.scores[trial.number]
            name = f"trial {trial.number}" + (" (given)" if trial.user_attrs.get("given") else "")
            row = [name + (" best" if trial is self.best else ""), *(_short(trial.params[k]) for k in keys)]
            again = [describe(scores, self.objective)] if scores else []
            rows.append([*row, format_number(trial.value), *again])
        heads = ["trial", *keys, "search", *([f"{self.repeats} other seeds"] if self.repeats else [])]
        found = [TextTable(f"best settings by {self.objective}", heads, rows, left=1 + len(keys))]
        if self.importances:
            shares = [[key, format_percent(share, 0)] for key, share in self.importances.items()]
            found.append(TextTable("how much of the difference a key explains", ["key", "share"], shares, left=1))
        return found


def import_optuna() -> Any:
    """Return Optuna; ImportError says how to get it."""
    try:
        import optuna
    except ImportError:
        raise ImportError("a search needs Optuna: pip install 'slipstream-rl[sweep]'") from None
    return optuna


def step_reached(trial: Any) -> int:
    """Return the last point of its time that a trial has reported."""
    return max(trial.intermediate_values, default=0)


def importances(study: Any) -> dict[str, float]:
    """Return the share of the differences between trials that each key explains; empty if there are too few trials."""
    optuna = import_optuna()
    if len([t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]) < 2 * STARTUP_TRIALS:
        return {}
    try:
        found = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    except (ValueError, RuntimeError):
        return {}
    return {key: value for key, value in found.items() if math.isfinite(value)}


def draw_history(study: Any, objective: str, path: Path) -> Path:
    """Draw the value of every trial, the pruned ones too, and the best so far."""
    figure = new_figure(8.6, 3.8)
    axes = figure.subplots()
    style_axes(axes, "trial", objective)
    complete = [t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
    pruned = [t for t in study.get_trials(deepcopy=False) if t.state.name == "PRUNED" and t.intermediate_values]
    better = max if study.direction.name == "MAXIMIZE" else min
    best = [better(t.value for t in complete[: k + 1]) for k in range(len(complete))]
    axes.plot([t.number for t in complete], [t.value for t in complete], "o", color=SERIES[0], label="trial")
    ends = [t.intermediate_values[step_reached(t)] for t in pruned]
    axes.plot([t.number for t in pruned], ends, "x", color=SERIES[1], label="pruned, last evaluation")
    axes.step([t.number for t in complete], best, where="post", color=SERIES[2], label="best so far")
    style_legend(axes, loc="best")
    return finish_figure(figure, path)


def draw_importances(shares: Mapping[str, float], objective: str, path: Path) -> Path:
    """Draw a bar per key."""
    figure = new_figure(8.6, 1.2 + 0.4 * len(shares))
    axes = figure.subplots()
    style_axes(axes, f"share of the differences in {objective}")
    axes.barh(list(shares)[::-1], list(shares.values())[::-1], color=SERIES[0])
    return finish_figure(figure, path)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
