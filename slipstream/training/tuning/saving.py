"""How often to save, and how hard to compress: what a checkpoint costs is measured, and weighed against what a crash would lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slipstream.monitor.asking import ADVISED, KEEP, Finding, Question, Situation
from slipstream.training.tuning.probe import SaveCost

AFFORDED = 0.005  # of the training's time, for checkpoints
FAST, HARD = 1, 12  # levels: our format writes 1 to 9 alike
SMALLER = 0.95  # of the bytes: a higher level must save at least this


def saving_questions() -> list[Question]:
    """Of the interval, then of the level; both measured once."""
    costs: dict[int, SaveCost] = {}

    def cost(s: Situation, level: int) -> SaveCost:
        if level not in costs:
            trial: Any = s.trial
            costs[level] = trial.cost_of_a_save(level, s.settings("compress_checkpoint"))
        return costs[level]

    def interval(s: Situation) -> Finding:
        return judge_interval(s, cost(s, s.settings("save_compression_level")))

    def level(s: Situation) -> Finding:
        return judge_level(s, lambda level: cost(s, level))

    return [
        Question("how often to save?", "save_interval", interval, late=True),
        Question("how hard to compress?", "save_compression_level", level, late=True),
    ]


def judge_interval(s: Situation, cost: SaveCost) -> Finding:
    """Whether saves at the present interval cost too much, or come faster than they can be written; and how often would be right."""
    interval, minutes = s.settings("save_interval"), s.settings("save_minutes")
    every_s = _every_s(s)
    share = cost.lost_s / every_s
    told = f"a save takes {1e3 * cost.lost_s:.1f} ms of training, {cost.write_s:.2f} s of a thread and {cost.bytes / 1e6:.1f} MB"
    finding = Finding("how often to save?", "save_interval", interval, interval, KEEP, "")
    if share <= AFFORDED and cost.write_s <= every_s:
        finding.why = f"{told}: {100 * share:.3f} % of the time at one in {every_s:.0f} s"
        return finding
    need_s = max(cost.lost_s / AFFORDED, 1.5 * cost.write_s)
    finding.value = max(int(-(-need_s // s.iteration_s)), interval + 1)
    after = cost.lost_s / (finding.value * s.iteration_s)
    finding.verdict, finding.predicted = ADVISED, (1 + share) / (1 + after)
    late = "; the writer cannot keep up" if cost.write_s > every_s else ""
    finding.why = f"{told}{late}: {100 * share:.1f} % of the time at one in {every_s:.1f} s, {100 * after:.1f} % then, as computed from it"
    if minutes and 60 * minutes < finding.value * s.iteration_s:
        finding.also = {"save_minutes": round(finding.value * s.iteration_s / 60, 2)}
    return finding


def judge_level(s: Situation, cost: Callable[[int], SaveCost]) -> Finding:
    """Whether another level writes clearly less without holding the training up, or as little at less cost."""
    now = s.settings("save_compression_level")
    finding = Finding("how hard to compress?", "save_compression_level", now, now, KEEP, "")
    if s.settings("compress_checkpoint") is False:
        finding.why = "checkpoints are not compressed"
        return finding
    here, other_level = cost(now), HARD if now < HARD else FAST
    other = cost(other_level)
    levels = ((now, here), (other_level, other))
    told = "; ".join(f"level {level}: {found.bytes / 1e6:.2f} MB in {found.write_s:.2f} s" for level, found in levels)
    every_s = _every_s(s)
    smaller = other.bytes <= SMALLER * here.bytes
    in_time = other.write_s <= every_s
    free = other.lost_s <= AFFORDED * every_s
    cheaper = other.bytes <= here.bytes / SMALLER and other.write_s < here.write_s / 2
    if (smaller and in_time and free) or cheaper:
        finding.verdict, finding.value = ADVISED, other_level
    finding.why = told
    if smaller and not in_time:
        finding.why += f"; at one save in {every_s:.1f} s the writer cannot keep up with level {other_level}"
    elif smaller:
        finding.why += f", for {100 * other.lost_s / every_s:.3f} % of the training's time"
    return finding


def _every_s(s: Situation) -> float:
    """The time between two saves, by iterations or by minutes, whichever comes sooner."""
    every_s = s.settings("save_interval") * s.iteration_s
    minutes = s.settings("save_minutes")
    return min(every_s, 60 * minutes) if minutes else every_s
