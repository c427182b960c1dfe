"""The viewer's scene of the task: one duel, and its spacetime diagram (`reach.forecast`) several times a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from slipstream.config.help import ConfigError
from slipstream.recordings import Recording
from slipstream.tasks.aircombat.observation import split_view
from slipstream.tasks.aircombat.physics.duel import CARRIED, GOING_ON, GONE, SLOTS, Duels, Rules, begin
from slipstream.tasks.aircombat.physics.engine import view_of_sides
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S, speed_of
from slipstream.tasks.aircombat.reach.forecast import forecast
from slipstream.tasks.aircombat.reach.table import reachable_sets, shipped_table
from slipstream.tasks.recording import body_group

ROW_S, DIAGRAM_S = 0.05, 0.25  # time between two rows of the tracks, and of the diagram
STEPS = {
    "fighter.position": 0.5, "fighter.velocity": 0.05, "fighter.rudder": 0.01, "fighter.throttle": 0.01,
    "missile.position": 0.5, "missile.velocity": 0.05,
    "diagram/path": 5.0, "diagram/escape": 5.0, "diagram/missile": 5.0, "diagram/range": 5.0, "diagram/contour": 20.0,
    "reach.polygon": 5.0, "reach.mach": 0.02,
}  # fmt: skip


def duel_recording(
    states: Sequence[Duels],
    names: tuple[str, str],
    title: str,
    facts: dict[str, Any],
    commands: torch.Tensor | None = None,
) -> Recording:
    """Return the recording of one game.

    Args:
        states: of one duel each ([1, ...]), in order.
        names: of the agents of side 1 and side 2.
        title: of the recording.
        facts: for its meta data, see `describe_policy`.
        commands: [T, 2, 3] of both sides at every tick, for `rollout_of`.
    """
    clocks = np.array([int(state.clock[0]) for state in states])
    ticks = max(1, round(ROW_S / PHYSICS_DT_S))
    kept = [k for k in range(len(states)) if k in (0, len(states) - 1) or clocks[k] // ticks > clocks[k - 1] // ticks]
    rows = Duels.cat(states[k] for k in kept)
    times = clocks[kept] * PHYSICS_DT_S
    columns = {
        "fighter.position": rows.pos, "fighter.velocity": rows.vel, "fighter.rudder": rows.rudder,
        "fighter.alive": rows.alive, "fighter.missiles": rows.left.to(torch.int8),
        "missile.position": torch.where((rows.missile_age == GONE)[..., None], torch.nan, rows.missile_pos),
        "missile.velocity": torch.where((rows.missile_age == GONE)[..., None], torch.nan, rows.missile_vel),
        "missile.age": rows.missile_age.to(torch.int16),
    }  # fmt: skip
    if commands is not None:
        columns["fighter.throttle"] = commands[(clocks[kept] - 1).clip(min=0), :, 1]
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
    missiles = [f"{names[k // CARRIED]} missile {k % CARRIED + 1}" for k in range(SLOTS)]
    colors = "Red,Blue" if facts.get("shown_side") == 2 else "Blue,Red"
    recording.groups = [
        body_group("fighter", list(names), "Air+FixedWing", colors, shown="fighter.alive"),
        body_group("missile", missiles, "Weapon+Missile", colors),
    ]
    winner = int(rows.winner[-1])
    result = {GOING_ON: "not ended", 0: "draw"}.get(winner) or f"{names[winner - 1]} (side {winner}) wins"
    _add_events(recording, rows, names, result)
    recording.meta = {"summary": f"{result} after {times[-1]:.0f} s", "names": list(names), "winner": winner, **facts}
    return recording


def rollout_of(recording: Recording) -> dict[str, Any]:
    """Return what people saw and did in a recorded game, as a batch [people, steps]: between two rows they held the
    commands of the second one, and fired where a missile has left."""
    columns = {name: torch.tensor(x) for name, x in recording.columns.items()}
    people = [side for side, name in enumerate(recording.meta.get("names", ())) if name.startswith("player")]
    if not people or "fighter.throttle" not in columns:
        raise ConfigError("it holds no actions of people: slipstream play records them")
    rules = Rules(episode_s=recording.meta["env"]["episode_s"])
    age, left = columns["missile.age"].int(), columns["fighter.missiles"].int()
    clock = torch.tensor(recording.clocks[""] / rules.dt_s).round().int()
    duels = begin(columns["fighter.position"], columns["fighter.velocity"], left)
    duels.rudder, duels.alive, duels.clock = columns["fighter.rudder"], columns["fighter.alive"] > 0, clock
    duels.missile_pos = columns["missile.position"].nan_to_num()
    duels.missile_vel = columns["missile.velocity"].nan_to_num()
    duels.missile_age = age
    youngest = torch.where(age == GONE, rules.cooldown, age).reshape(-1, 2, CARRIED).amin(-1)
    duels.cooldown = (rules.cooldown - youngest).clamp(min=0)
    moves = clock.diff() > 0
    seen = split_view(view_of_sides(duels, rules, shipped_table(torch.device("cpu")))[people, :-1][:, moves])
    did = columns["fighter.rudder"][1:], columns["fighter.throttle"][1:], (left.diff(dim=0) < 0).float()
    return {"observation": dict(seen), "action": torch.stack(did, -1)[moves].transpose(0, 1)[people].contiguous()}


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
    found = []
    for t in range(1, len(times)):
        for slot in range(SLOTS):
            side, was, now = slot // CARRIED, int(age[t - 1, slot]), int(age[t, slot])
            missile = f"{names[side]} missile {slot % CARRIED + 1}"
            if was == GONE and now != GONE:
                found.append((t, "launch", f"{names[side]} fires", missile))
            elif was != GONE and now == GONE:
                hit = bool(rows.alive[t - 1, 1 - side]) and not bool(rows.alive[t, 1 - side])
                kind, text = ("hit", f"hits {names[1 - side]}") if hit else ("lost", "is lost")
                found.append((t, kind, f"{missile} {text}", missile))
    for t, kind, text, body in (*found, (-1, "end", result, "")):
        recording.events.append({"time": float(times[t]), "kind": kind, "text": text, "body": body})
