"""The viewer's scene of the task: one duel, and its spacetime diagram (`reach.forecast`) several times a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from slipstream.recordings import Recording
from slipstream.tasks.aircombat.physics.duel import CARRIED, GOING_ON, GONE, SLOTS, Duels
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S, speed_of
from slipstream.tasks.aircombat.reach.forecast import forecast
from slipstream.tasks.aircombat.reach.table import reachable_sets

ROW_S, DIAGRAM_S = 0.05, 0.25  # time between two rows of the tracks, and of the diagram
STEPS = {
    "fighter.position": 0.5, "fighter.velocity": 0.05, "fighter.rudder": 0.01,
    "missile.position": 0.5, "missile.velocity": 0.05,
    "diagram/path": 5.0, "diagram/escape": 5.0, "diagram/missile": 5.0, "diagram/range": 5.0, "diagram/contour": 20.0,
    "reach.polygon": 5.0, "reach.mach": 0.02,
}  # fmt: skip


def duel_recording(states: Sequence[Duels], names: tuple[str, str], title: str, facts: dict[str, Any]) -> Recording:
    """Return the recording of one game.

    Args:
        states: of one duel each ([1, ...]), in order.
        names: of the agents of side 1 and side 2.
        title: of the recording.
        facts: for its meta data, see `describe_policy`.
    """
    clocks = np.array([int(state.clock[0]) for state in states])
    ticks = max(1, round(ROW_S / PHYSICS_DT_S))
    kept = [k for k in range(len(states)) if k in (0, len(states) - 1) or clocks[k] // ticks > clocks[k - 1] // ticks]
    rows = Duels(**{name: torch.cat([state.tensors()[name] for state in (states[k] for k in kept)])
                    for name in states[0].tensors()})  # fmt: skip
    times = clocks[kept] * PHYSICS_DT_S
    columns = {
        "fighter.position": rows.pos, "fighter.velocity": rows.vel, "fighter.rudder": rows.rudder,
        "fighter.alive": rows.alive, "fighter.missiles": rows.left.to(torch.int8),
        "missile.position": torch.where((rows.missile_age == GONE)[..., None], torch.nan, rows.missile_pos),
        "missile.velocity": torch.where((rows.missile_age == GONE)[..., None], torch.nan, rows.missile_vel),
        "missile.age": rows.missile_age.to(torch.int16),
    }  # fmt: skip
    recording = Recording("duel", title, {"": times}, {name: x.numpy() for name, x in columns.items()})
    shown = [0]
    for k in range(1, len(times)):
        if times[k] - times[shown[-1]] >= DIAGRAM_S - 1e-6 or k == len(times) - 1:
            shown.append(k)
    recording.clocks["diagram"] = times[shown]
    recording.columns |= {f"diagram/{name}": x for name, x in forecast(rows.map(lambda x: x[shown])).items()}
    speeds = speed_of(rows.vel)
    recording.arrays = reach_table(float(speeds.min()), float(speeds.max()))
    recording.precision = dict(STEPS)
    labels = {
        "fighter": list(names),
        "missile": [f"{names[k // CARRIED]} missile {k % CARRIED + 1}" for k in range(SLOTS)],
    }
    kinds = {"fighter": "Air+FixedWing", "missile": "Weapon+Missile"}
    alive = {"fighter": "fighter.alive", "missile": None}
    recording.groups = [
        {"name": name, "position": f"{name}.position", "shown": alive[name], "labels": labels[name], "type": kinds[name],
         "color": "Red,Blue" if facts.get("shown_side") == 2 else "Blue,Red"} for name in kinds
    ]  # fmt: skip
    winner = int(rows.winner[-1])
    result = {GOING_ON: "not ended", 0: "draw"}.get(winner) or f"{names[winner - 1]} (side {winner}) wins"
    _add_events(recording, rows, names, result)
    recording.meta = {"summary": f"{result} after {times[-1]:.0f} s", "names": list(names), "winner": winner, **facts}
    return recording


def reach_table(low: float, high: float) -> dict[str, np.ndarray]:
    """Return the reachable sets (`reach.table.reachable_sets`) of carriers with speeds from `low` to `high` m/s."""
    sets = reachable_sets()
    first, last = np.searchsorted(sets["speed"], low, "right") - 1, np.searchsorted(sets["speed"], high) + 1
    rows = slice(max(first, 0), last)
    return {f"reach.{name}": x if name == "time" else x[rows] for name, x in sets.items()}


# -- inside ------------------------------------------------------------------------------------------------------------


def _add_events(recording: Recording, rows: Duels, names: tuple[str, str], result: str) -> None:
    """Add launches, lost missiles, hits, and the end."""
    times, age = recording.clocks[""], rows.missile_age
    events = recording.events
    for t in range(1, len(times)):
        for slot in range(SLOTS):
            side, was, now = slot // CARRIED, int(age[t - 1, slot]), int(age[t, slot])
            missile = f"{names[side]} missile {slot % CARRIED + 1}"
            if was == GONE and now != GONE:
                events.append(
                    {"time": float(times[t]), "kind": "launch", "text": f"{names[side]} fires", "body": missile}
                )
            elif was != GONE and now == GONE:
                hit = bool(rows.alive[t - 1, 1 - side]) and not bool(rows.alive[t, 1 - side])
                kind, text = ("hit", f"hits {names[1 - side]}") if hit else ("lost", "is lost")
                events.append({"time": float(times[t]), "kind": kind, "text": f"{missile} {text}", "body": missile})
    events.append({"time": float(times[-1]), "kind": "end", "text": result, "body": ""})
