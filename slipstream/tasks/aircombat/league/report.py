"""The report of a league training: the last evaluation as a table, and curves of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstream.tasks.aircombat.figures.league_curves import outcome_curves
from slipstream.tasks.report import write_report


def write_league_report(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path | None:
    """Write report.html and curves.png into the run's folder; nothing if `rows` of its metrics hold no evaluation."""
    rows = [row for row in rows if row.get("league/elo") is not None]
    if not rows:
        return None
    last = rows[-1]
    won = (key for row in rows for key in row if key.startswith("league/") and key.endswith("/won"))
    names = list(dict.fromkeys(key.split("/")[1] for key in won))
    curves = outcome_curves(rows, folder / "curves.png", names, "games won, drawn and lost while learning")
    facts = {
        "rating": f"{last['league/elo']:.0f} ({last['league/elo_low']:.0f} … {last['league/elo_high']:.0f})",
        "stage": int(last["league/stage"]),
        "training": f"{last['frames']:,} frames in {last['time_s']:.0f} s, evaluations included",
    }
    table = [_line(last, name) for name in names if last.get(f"league/{name}/won") is not None]
    return write_report(folder, "Air combat: the league", table, {"Evaluations while training": curves}, facts)


def _line(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    won, draw, lost = (row[f"league/{name}/{what}"] for what in ("won", "draw", "lost"))
    decided = won + lost
    return {
        "opponent": name,
        "won": won,
        "draw": draw,
        "lost": lost,
        "won of decided": won / decided if decided else None,
        "Elo": row.get(f"league/{name}/elo"),
    }
