"""What a monitor found, as lines of text and as numbers for a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slipstream.monitor.statistics import PERCENTILES
from slipstream.monitor.trend import Leak

Stats = Mapping[str, Mapping[str, float]]


def timings(stats: Stats) -> list[str]:
    """The documents' lines."""
    lines = ["=== Performance Summary ==="]
    for name, s in stats.items():
        lines.append(f"{name:<25}: {s['mean']:7.2f} ms (±{s['std']:6.2f} ms) [{s['min']:6.2f}, {s['max']:6.2f}]")
    return lines


def standing(rates: Mapping[str, float], exposed: Stats) -> list[str]:
    """Throughput, and for what the learner stood still."""
    waits = [f"{name} {100 * w['share']:.1f} % ({w['ms']:.2f} ms)" for name, w in exposed.items()]
    done = ", ".join(f"{rate:,.1f} {name}/s" for name, rate in rates.items())
    return [_line("throughput", done), _line("learner stood still for", ", ".join(waits))]


def gauges(values: Mapping[str, float], errors: Mapping[str, str], leaks: Iterable[Leak]) -> list[str]:
    """What was last read, what cannot be read, and what seems to leak."""
    lines = [_line("gauges", ", ".join(f"{name} {value:,.0f}" for name, value in values.items()))] if values else []
    lines += [_line("gauge not read any more", f"{name}: {error}") for name, error in errors.items()]
    return lines + [_line("leak?", str(leak)) for leak in leaks]


def own_cost(cost: Mapping[str, float]) -> list[str]:
    """What measuring takes."""
    text = f"{cost['timer_us']:.2f} us a timer, {cost['timers']:.0f} timers an iteration, {100 * cost['share']:.3f} % of the time"
    return [_line("monitor itself", text)]


def percentiles(stats: Stats) -> dict[str, float]:
    """The percentiles of the stages, but not of what is inside of them."""
    return {f"{name}_p{q}": s[f"p{q}"] for name, s in stats.items() if "/" not in name for q in PERCENTILES}


def _line(name: str, text: str) -> str:
    return f"{name:<25}: {text}"
