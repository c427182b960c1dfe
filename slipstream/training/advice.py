"""The advisor's questions about a training: which change is worth a try, why, and how much it can gain at most.

Bounds follow from Amdahl's law and the shares of an iteration that the learner waits. Where that says nothing they are
what was measured elsewhere, and `why` says so. The measurement decides.
"""

from __future__ import annotations

import math
from typing import Any

from slipstream.monitor.advisor import ADVISED, Finding, Proposal, Question, Situation, amdahl_gain
from slipstream.training.trainer import Trainer
from slipstream.training.tuning import SaveCost

ENOUGH_MINIBATCHES = 4  # PPO needs several steps per batch
MEMORY_IS_SHORT = 0.8  # of all memory in use: from here on memory is worth time
SPEED_FOR_MEMORY = 0.8  # the share of the speed that compressed observations must keep
SAVE_SHARE = 0.005  # of the training's time, for checkpoints
# The least and the most that compiled kernels gained over another mode, 256 to 65,536 drones
# (benchmarks/results/train-h200-2026-11-15.md).
MEASURED_BY_COMPILING = {"graphs": (1.7, 3.2), "plain": (3.6, 41.0)}

SAVE_OFTEN = "how often to save?"
Answer = Proposal | str


def training_questions() -> list[Question]:
    """Return all questions."""
    fewer_updates, larger_steps = "larger batches: fewer updates per frame", "fewer, larger gradient steps"
    return [
        Question("collect beside the learning?", "collect.pipeline", _pipeline, "data are one update old"),
        Question("hide the transfer only?", "collect.pipeline", _pipeline_on_policy),
        Question("keep observations compressed?", "collect.compress", _compress),
        Question("a raw replay buffer?", "algo.codec", _replay),
        Question("larger minibatches?", "algo.minibatches", _minibatches, larger_steps, again=True, stage="batches"),
        Question("more environments?", "env.num_envs", _num_envs, fewer_updates, again=True, stage="batches"),
        Question("how many CPU threads?", "threads", _threads),
        Question("bf16?", "algo.bf16", _bf16, "the encoder in bf16"),
        Question("compile?", "compile", _compile, set_up_s=40.0),
        Question(SAVE_OFTEN, "save_interval", _save_interval, stage="late"),
    ]


def _trainer(s: Situation) -> Trainer:
    trial: Any = s.trial
    return trial.trainer


def _learning(s: Situation) -> float:
    """Return the share of an iteration that is the learning itself."""
    return max(1 - sum(s.exposed.values()), 0.0)


def _memory_used(s: Situation) -> float:
    return 1 - s.facts["free_mb"] / s.facts["all_mb"]


def _pipeline(s: Situation) -> Answer:
    if s.facts["device"] == "cpu" and s.facts["cores"] < 2:
        return "one core: nothing can run beside the learning"
    collecting = s.exposed.get("collect", 0.0)
    bound = 1 / max(collecting, 1 - collecting)  # the longer of the two that would run side by side remains
    return _pipeline_as(s, "on", bound, f"the learner waits for collecting {100 * collecting:.0f} % of an iteration")


def _pipeline_on_policy(s: Situation) -> Answer:
    aside = sum(share for name, share in s.exposed.items() if name != "collect")
    why = f"logging, saving and reading take {100 * aside:.1f} % of an iteration"
    return _pipeline_as(s, "on_policy", amdahl_gain(aside), why)


def _pipeline_as(s: Situation, value: str, bound: float, why: str) -> Answer:
    now, controller = s.settings("collect.pipeline"), _trainer(s).controller
    if now != "off":
        return f"it is on ({now})"
    if controller is not None:
        return f"the {controller.name} changes the env between iterations: collecting cannot run ahead"
    if s.facts["device"] == "cuda":
        # an H200 gains 1.16 of 1.37 as graphs and loses 2 % compiled (benchmarks/pipeline.py)
        why += "; env and learner share one GPU, where each slows the other down"
    return Proposal(value, bound, why)


def _compress(s: Situation) -> Answer:
    now, used = s.settings("collect.compress"), _memory_used(s)
    if now != "off":
        return f"it is on ({now})"
    if used < MEMORY_IS_SHORT:
        return f"memory is not short: {100 * used:.0f} % of {s.facts['all_mb'] / 1024:.0f} GB is in use"
    also = {"compile": "off"} if s.facts["device"] == "cuda" else {}  # the host decodes the batches: no capture
    return Proposal("all", None, f"memory is short: {100 * used:.0f} % in use", SPEED_FOR_MEMORY, also)


def _replay(s: Situation) -> Answer:
    now, used = s.settings("algo.codec"), _memory_used(s)
    if now is None:
        return f"algo={s.settings('algo.name')} has no replay buffer"
    if now != "auto" or s.facts["device"] == "cuda":
        return f"it is {now}" if now != "auto" else "on a GPU the buffer is raw"
    if used > MEMORY_IS_SHORT:
        return f"memory is short: {100 * used:.0f} % in use"
    return Proposal("raw", None, "sampling raw steps needs no decoding")


def _num_envs(s: Situation) -> Answer:
    return Proposal(2 * s.settings("env.num_envs"), 2.0, "costs that do not grow with their number are shared")


def _minibatches(s: Situation) -> Answer:
    now, learning = s.settings("algo.minibatches"), _learning(s)
    if now is None:
        return f"algo={s.settings('algo.name')} has no minibatches"
    if now // 2 < ENOUGH_MINIBATCHES or now % 2:
        return f"{now} gradient steps per epoch are few already"
    why = f"learning takes {100 * learning:.0f} % of an iteration, in {now} steps per epoch"
    return Proposal(now // 2, amdahl_gain(learning, 0.5), why)


def _threads(s: Situation) -> Answer:
    if s.facts["device"] == "cuda":
        return "the work is on the GPU"
    now, cores = s.settings("threads") or s.facts["threads"], s.facts["cores"]
    if now == cores == 1:
        return "one core, one thread"
    if now == cores:
        return Proposal(now // 2, None, "small work can be faster on fewer threads")
    return Proposal(cores, cores / now if now < cores else None, f"{now} threads on {cores} cores")


def _bf16(s: Situation) -> Answer:
    now, on_cpu = s.settings("algo.bf16"), s.facts["device"] == "cpu"
    if now is None:
        return f"algo={s.settings('algo.name')} has no bf16"
    if now or not s.facts["bf16"]:
        return "it is on" if now else "a CPU gains nothing by it" if on_cpu else "this GPU has no bf16"
    return Proposal(True, amdahl_gain(_learning(s), 0.5), "matrix products of the learning at twice the rate")


def _compile(s: Situation) -> Answer:
    learning, mode = _learning(s), _trainer(s).execution_mode()
    if not _trainer(s).learner.supports_capture:
        return f"the update of algo={s.settings('algo.name')} cannot be compiled"
    if mode == "compiled":
        return "it is on" if s.settings("compile") == "on" else "auto compiles a run this long"
    if s.facts["device"] != "cuda":
        why = f"learning takes {100 * learning:.0f} %; its kernels can be fused"
        return Proposal("on", amdahl_gain(learning, 1 / 3), why)
    least, most = MEASURED_BY_COMPILING[mode]
    measured = f"{least} to {most} × {mode} as measured on an H200, not by Amdahl's law"
    return Proposal("on", most, f"kernels fused; {measured}; pays in runs of two minutes or more")


def _save_interval(s: Situation) -> Finding | str:
    """Advise a longer interval if saves cost too much, or come faster than they can be written."""
    trial: Any = s.trial
    cost: SaveCost = trial.save_cost()
    now, minutes = s.settings("save_interval"), s.settings("save_minutes")
    every_s = min(now * s.iteration_s, 60 * minutes if minutes else math.inf)
    share, late = cost.lost_s / every_s, cost.write_s > every_s
    why = f"a save takes {1e3 * cost.lost_s:.1f} ms of training, {cost.write_s:.2f} s of a thread and {cost.bytes / 1e6:.1f} MB"
    if share <= SAVE_SHARE and not late:
        return f"{why}: {100 * share:.3f} % of the time at one in {every_s:.0f} s"
    value = max(math.ceil(max(cost.lost_s / SAVE_SHARE, 1.5 * cost.write_s) / s.iteration_s), now + 1)
    new_s = value * s.iteration_s
    after = cost.lost_s / new_s
    why += "; the writer cannot keep up" if late else ""
    why += f": {100 * share:.1f} % of the time at one in {every_s:.1f} s, {100 * after:.1f} % then (computed)"
    also = {"save_minutes": round(new_s / 60, 2)} if 0 < 60 * minutes < new_s else {}
    return Finding(SAVE_OFTEN, "save_interval", now, value, ADVISED, why, (1 + share) / (1 + after), also=also)
