"""The loop that flies: receive, decide at a fixed rate, send; and the log from which a flight is decided again."""

from __future__ import annotations

import json
import math
import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.deploy.links import Link
from slipstream.deploy.messages import Command, Message, pack, unpack, yaw_of
from slipstream.deploy.pilot import Decision, Limits, Pilot

CLOCK = struct.Struct("<d")  # before a message in the log: when it arrived


@dataclass
class Statistics:
    """Figures of a flight."""

    states: Counter[str] = field(default_factory=Counter)  # decisions by state, and by reason
    received: Counter[str] = field(default_factory=Counter)
    late_ms: list[float] = field(default_factory=list)  # of each decision, behind the rate
    compute_ms: list[float] = field(default_factory=list)
    shielded: int = 0
    skipped: int = 0  # decisions that did not happen, because the one before took too long

    def summary(self) -> dict[str, Any]:
        """Return plain figures."""
        timing = {}
        for name in ("late_ms", "compute_ms"):
            p50, p99, most = np.quantile(getattr(self, name) or [math.nan], (0.5, 0.99, 1)).round(2).tolist()
            timing[name] = {"p50": p50, "p99": p99, "max": most}
        counts = {"states": dict(self.states), "received": dict(self.received)}
        return counts | timing | {"shielded": self.shielded, "skipped": self.skipped}


def fly(
    pilot: Pilot,
    link: Link,
    seconds: float = math.inf,
    log: FlightLog | None = None,
    on_decision: Callable[[Decision], bool] | None = None,
    send: bool = True,
) -> Statistics:
    """Decide every `decision_s` until `seconds` are over, `on_decision` returns True or an error; then command a stop.

    Args:
        pilot: with a goal.
        link: to the vehicle.
        seconds: of flight.
        log: where messages and decisions go.
        on_decision: called after each decision.
        send: False: only decide.
    """
    stats, period, begin = Statistics(), pilot.deployment.decision_s, time.monotonic()
    due = begin + period
    try:
        while due - begin <= seconds + period:
            while (now := time.monotonic()) < due:
                for message in link.receive(due - now):
                    now = time.monotonic()
                    used = pilot.receive(message, now)
                    stats.received[f"{type(message).__name__}{'' if used else ', not used'}"] += 1
                    if log:
                        log.message(message, now)
            decision = pilot.decide(now)
            stats.late_ms.append(1e3 * (now - due))
            stats.compute_ms.append(1e3 * (time.monotonic() - now))
            stats.states[f"{decision.state} {decision.reason}".strip()] += 1
            stats.shielded += decision.shielded
            if log:
                log.decision(decision)
            if send and np.isfinite(decision.command.values).all():  # nothing before the first odometry
                link.send(decision.command)
            if on_decision and on_decision(decision):
                break
            behind = max(0, int((time.monotonic() - due) / period))
            stats.skipped += behind
            due += period * (behind + 1)
    finally:
        if send and pilot.odometry.last is not None:
            link.send(Command(time.monotonic(), [0.0, 0.0, 0.0, yaw_of(pilot.odometry.last.values[0, 6:])]))
    return stats


class FlightLog:
    """An MCAP file with everything that a pilot received and decided (pip install mcap).

    Topics `odometry`, `cloud`, `obstacles`: the time of arrival (float64) and the bytes of `messages.pack`; topic
    `decision`: JSON.
    """

    def __init__(self, path: str | Path, pilot: Pilot) -> None:
        from mcap.writer import Writer

        assert pilot.goal is not None
        self._writer = Writer(str(path))
        self._writer.start(library="slipstream")
        facts = {"goal": pilot.goal.tolist(), "shield": pilot.shield is not None, "limits": asdict(pilot.limits)}
        facts["remove_tracked"] = pilot.remove_tracked
        self._writer.add_metadata("flight", {"settings": json.dumps(facts)})
        schema = self._writer.register_schema("decision", "jsonschema", b'{"type": "object"}')
        self._channels = {"decision": self._writer.register_channel("decision", "json", schema)}

    def _add(self, topic: str, data: bytes, now: float) -> None:
        if topic not in self._channels:
            self._channels[topic] = self._writer.register_channel(topic, "slipstream", 0)
        at = int(now * 1e9)
        self._writer.add_message(self._channels[topic], at, data, at)

    def message(self, message: Message, now: float) -> None:
        """Log a message that arrived at `now`."""
        self._add(type(message).__name__.lower(), CLOCK.pack(now) + pack(message), now)

    def decision(self, decision: Decision) -> None:
        """Log a decision."""
        facts: dict[str, Any] = {"now": decision.now, "state": decision.state, "reason": decision.reason}
        facts |= {"command": decision.command.values[0].tolist(), "shielded": decision.shielded}
        facts["action"] = None if decision.action is None else decision.action.tolist()
        self._add("decision", json.dumps(facts).encode(), decision.now)

    def close(self) -> None:
        """Write the index."""
        self._writer.finish()


def replay(path: str | Path, onnx_file: str | Path) -> tuple[int, int]:
    """Decide a logged flight again. Return the number of decisions, and of those that differ in any bit.

    Raises ValueError if the log is damaged or is none of ours.
    """
    from mcap.reader import make_reader

    decisions = differ = 0
    with open(path, "rb") as file:
        try:
            reader = make_reader(file)
            about = next(x for x in reader.iter_metadata() if x.name == "flight")
            facts: dict[str, Any] = json.loads(about.metadata["settings"])
            pilot = Pilot(onnx_file, facts["shield"], Limits(**facts["limits"]), facts["remove_tracked"])
            pilot.fly_to(facts["goal"])
            for _, channel, record in reader.iter_messages(log_time_order=False):
                if channel.topic == "decision":
                    logged = json.loads(record.data)
                    command = pilot.decide(logged["now"]).command.values[0].tolist()
                    decisions, differ = decisions + 1, differ + (command != logged["command"])
                else:
                    pilot.receive(unpack(record.data[CLOCK.size :]), *CLOCK.unpack_from(record.data))
        except (ImportError, OSError):
            raise
        except Exception as error:  # mcap and its decompressors raise a dozen kinds
            raise ValueError(f"{path} cannot be decided again: {error!r}") from error
    return decisions, differ
