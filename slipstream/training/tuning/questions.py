"""What the advisor asks of a training: each question names its key, when a change is worth a try, and what it can gain at most.

Gains are bounds by Amdahl's law, from the shares of an iteration for which the learner stands still, or where that says nothing what
was measured elsewhere, and `why` says so; trying them decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slipstream.monitor.asking import Proposal, Question, Situation, Trial, without
from slipstream.training.tuning.saving import saving_questions

ENOUGH_MINIBATCHES = 4  # PPO wants several steps from a batch
SHORT_OF_MEMORY = 0.8  # of all memory in use: from here on memory is worth time
LOSS_FOR_MEMORY = 0.8  # the documents' price of compressed observations: a fifth of the speed
FEWER_UPDATES = "larger batches: fewer updates a frame"

# By form: the least and the most that compiled kernels gained over it, 256 to 65,536 drones (benchmarks/results/train-h200-2026-11-15.md).
MEASURED_BY_COMPILING = {"graphs": (1.7, 3.2), "plain": (3.6, 41.0)}


def training_questions(gain_over_half: Callable[[Trial], float | None] = lambda trial: None) -> list[Question]:
    """All questions. `gain_over_half` measures what the last doubling of the environments brought: the next one follows from it."""
    sizes = _NumEnvs(gain_over_half)
    return [
        Question("collect beside the learning?", "collect.pipeline", _pipeline, "data are one update old"),
        Question("hide the transfer only?", "collect.pipeline", _pipeline_on_policy),
        Question("keep observations compressed?", "collect.compress", _compress),
        Question("compress observations less?", "collect.compression_level", _observation_level),
        Question("a raw replay buffer?", "algo.codec", _replay),
        Question(
            "larger minibatches?",
            "algo.minibatches",
            _minibatches,
            "fewer, larger gradient steps",
            again=True,
            batches=True,
        ),
        Question(
            "more environments?", "env.num_envs", sizes.propose, FEWER_UPDATES, again=True, batches=True, measures=True
        ),
        Question("how many CPU threads?", "threads", _threads),
        Question("bf16?", "algo.bf16", _bf16, "the encoder in bf16"),
        Question("compile?", "compile", _compile, set_up_s=40.0),
        *saving_questions(),
    ]


def _learning(s: Situation) -> float:
    """The share of an iteration that is the learning itself."""
    return max(1 - sum(s.exposed.values()), 0.0)


def _pipeline(s: Situation) -> Proposal | str:
    if why := _not_pipelined(s):
        return why
    if s.facts["device"] == "cpu" and s.facts["cores"] < 2:
        return "one core: nothing can run beside the learning"
    collecting = s.exposed.get("collect", 0.0)
    longest = max(collecting, 1 - collecting)  # of the two that would run side by side
    why = f"the learner stands still for collecting {100 * collecting:.0f} % of an iteration"
    return Proposal("on", 1 / longest, f"{why}{_shared(s)}")


def _pipeline_on_policy(s: Situation) -> Proposal | str:
    if why := _not_pipelined(s):
        return why
    aside = sum(share for name, share in s.exposed.items() if name != "collect")
    why = f"logging, saving and reading take {100 * aside:.1f} % of an iteration"
    return Proposal("on_policy", 1 / max(1 - aside, 1e-3), f"{why}{_shared(s)}")


def _shared(s: Situation) -> str:
    """Why the bound is rarely reached on a GPU: an H200 gains 1.16 of 1.37 as graphs and loses 2 % compiled (benchmarks/pipeline.py)."""
    return "; env and learner share one GPU, where each slows the other down" if s.facts["device"] == "cuda" else ""


def _not_pipelined(s: Situation) -> str:
    """Why collecting beside the learner is no question here; empty where it is one."""
    now = s.settings("collect.pipeline")
    if now != "off":
        return f"it is on ({now})"
    return (
        "a league changes the opponents between iterations: collecting cannot run ahead"
        if s.settings("league.enabled")
        else ""
    )


def _compress(s: Situation) -> Proposal | str:
    now = s.settings("collect.compress")
    if now != "off":
        return f"it is on ({now})"
    used = 1 - s.facts["free_mb"] / s.facts["all_mb"]
    if used < SHORT_OF_MEMORY:
        return f"memory is not short: {100 * used:.0f} % of {s.facts['all_mb'] / 1024:.0f} GB is in use"
    on_gpu = s.facts["device"] == "cuda"  # the host opens compressed batches: nothing can be captured
    also = {"compile": "off"} if on_gpu else {}
    return Proposal("all", None, f"memory is short: {100 * used:.0f} % in use", needs=LOSS_FOR_MEMORY, also=also)


def _observation_level(s: Situation) -> Proposal | str:
    if s.settings("collect.compress") == "off":
        return "observations are not compressed"
    now = s.settings("collect.compression_level")
    return Proposal(1, None, f"level {now} compresses harder, and slower") if now > 1 else f"level {now} is the fastest"


def _replay(s: Situation) -> Proposal | str:
    now = s.settings("algo.codec")
    if now is None:
        return "PPO has no replay buffer"
    if now != "auto" or s.facts["device"] == "cuda":
        return f"it is {now}" if now != "auto" else "on a GPU the buffer is raw"
    used = 1 - s.facts["free_mb"] / s.facts["all_mb"]
    if used > SHORT_OF_MEMORY:
        return f"memory is short: {100 * used:.0f} % in use"
    return Proposal("raw", None, "drawing from raw steps needs no decoding")


class _NumEnvs:
    """More environments share the costs of an iteration that do not grow with their number; two sizes tell these from the rest."""

    def __init__(self, gain_over_half: Callable[[Trial], float | None]) -> None:
        self._gain_over_half = gain_over_half
        self._fixed: float | None = None  # those costs, as numbers of environments that would cost as much

    def propose(self, s: Situation) -> Proposal | str:
        """Twice as many, where that can gain something."""
        now = s.settings("env.num_envs")
        if self._fixed is None:
            found = self._gain_over_half(s.trial)
            if found is None:
                return "half as many cannot be measured here"
            better = min(max(found, 1.0), 1.99)
            self._fixed = now * (better - 1) / (2 - better)
        gain = 2 * (self._fixed + now) / (self._fixed + 2 * now)
        return Proposal(
            2 * now,
            gain,
            f"{100 * self._fixed / (self._fixed + now):.0f} % of an iteration costs the same for any number",
        )


def _minibatches(s: Situation) -> Proposal | str:
    now = s.settings("algo.minibatches")
    if now is None:
        return "only PPO cuts batches into minibatches"
    if now // 2 < ENOUGH_MINIBATCHES or now % 2:
        return f"{now} gradient steps an epoch are few already"
    learning = _learning(s)
    return Proposal(
        now // 2,
        1 / (1 - learning / 2),
        f"learning takes {100 * learning:.0f} % of an iteration, in {now} steps an epoch",
    )


def _threads(s: Situation) -> Proposal | str:
    if s.facts["device"] == "cuda":
        return "the work is on the GPU"
    now = s.settings("threads") or s.facts["threads"]
    if now < s.facts["cores"]:
        return Proposal(s.facts["cores"], s.facts["cores"] / now, f"{now} threads on {s.facts['cores']} cores")
    if now > s.facts["cores"]:
        return Proposal(s.facts["cores"], None, f"{now} threads on {s.facts['cores']} cores stand in each other's way")
    return (
        Proposal(now // 2, None, "small work is sometimes faster on fewer threads")
        if now > 1
        else "one core, one thread"
    )


def _bf16(s: Situation) -> Proposal | str:
    now = s.settings("algo.bf16")
    if now is None:
        return "only PPO has it"
    if now or not s.facts["bf16"]:
        return (
            "it is on" if now else "a CPU gains nothing by it" if s.facts["device"] == "cpu" else "this GPU has no bf16"
        )
    return Proposal(
        True, without({"learn": _learning(s)}, "learn", 0.5), "matrix products of the learning at twice the rate"
    )


def _compile(s: Situation) -> Proposal | str:
    now = s.settings("compile")
    if s.settings("algo.name") != "ppo":
        return "compiles the update of algo=ppo only"
    trial: Any = s.trial
    if trial.form == "compiled":
        return "it is on" if now == "on" else "auto compiles a run this long"
    if s.facts["device"] != "cuda":
        learning = _learning(s)
        why = f"learning takes {100 * learning:.0f} %; its kernels can be fused"
        return Proposal("on", without({"learn": learning}, "learn", 1 / 3), why)
    least, most = MEASURED_BY_COMPILING[trial.form]
    told = f"{least} to {most} × {trial.form} as measured on an H200, not by Amdahl's law"
    return Proposal("on", most, f"kernels fused; {told}; worth a minute of start-up in runs of four minutes and more")
