"""Recordings in other formats: a page that opens from disk, and Tacview's ACMI 2.2."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.recordings.format import Recording
from slipstream.storage.errors import printable
from slipstream.storage.files import write_file

STATIC = Path(__file__).parents[1] / "viewer" / "static"  # the page: built from web/ by `make web`
METERS_PER_DEGREE = 6378137.0 * math.pi / 180  # Tacview's flat coordinates, around longitude and latitude 0
ALTITUDE_M = 6000.0  # of bodies in a plane


def export_recording(recording: Recording, path: str | PathLike[str], to: str) -> Path:
    """Write `recording` as html or acmi."""
    if to not in FORMATS:
        raise ValueError(f"--to {to}: use one of {', '.join(FORMATS)}")
    write_file(Path(path), FORMATS[to](recording).encode())
    return Path(path)


def write_html(recording: Recording, path: str | PathLike[str]) -> Path:
    """Write one page with the viewer and the data inside; it opens from disk and fetches nothing."""
    return export_recording(recording, path, "html")


def _html(recording: Recording) -> str:
    return page(recording.title, "recording", recording.to_bytes())


def page(title: str, kind: str, data: bytes) -> str:
    """Return the viewer as one page with `data` inside: a recording, or an ONNX policy that flies in the browser."""
    text, style, script = (
        (STATIC / name).read_text(encoding="utf-8") for name in ("embedded.html", "viewer.css", "viewer.js")
    )
    inside = {"title": escape(title), "style": style, "script": script, "data": base64.b64encode(data).decode()}
    for name, content in ({"kind": kind} | inside).items():
        text = text.replace(f"<!--{name}-->", content, 1)
    return text


def _shown(recording: Recording, group: dict[str, Any]) -> np.ndarray:
    """Return which bodies [T, K] are there."""
    position, shown = recording.columns[group["position"]], group.get("shown")
    there = np.isfinite(position).all(-1)
    return there & (recording.columns[shown] > 0) if shown else there


def _acmi(recording: Recording) -> str:
    """Return a recording for Tacview, version 2.2 of its text format."""
    return "\ufeff" + "".join(f"{line}\n" for line in _acmi_lines(recording))


def _acmi_lines(recording: Recording) -> Iterator[str]:
    yield "FileType=text/acmi/tacview"
    yield "FileVersion=2.2"
    created = recording.meta.get("created", "2000-01-01T00:00:00Z")
    facts = {"ReferenceTime": created, "RecordingTime": created, "Title": recording.title, "DataRecorder": "Slipstream",
             "ReferenceLongitude": "0", "ReferenceLatitude": "0"}  # fmt: skip
    yield from (f"0,{name}={_acmi_text(str(value))}" for name, value in facts.items())
    events = sorted(recording.events, key=lambda event: event["time"])
    groups = [(group, recording.columns[group["position"]], _shown(recording, group)) for group in recording.groups]
    ids: dict[tuple[int, int], int] = {}
    number = 0
    for t, time_s in enumerate(recording.clocks[""]):
        yield f"#{time_s:.3f}"
        present = {group["labels"][k] for group, _, shown in groups for k in np.flatnonzero(shown[t])}
        texts: dict[str, list[str]] = {}  # an event is the label of its body; not all programs know Tacview's Event
        while events and events[0]["time"] <= time_s + 1e-9:
            event = events.pop(0)
            texts.setdefault(event["body"] if event["body"] in present else "", []).append(event["text"])
        if texts.get(""):
            yield f"0,Comments={_acmi_text('; '.join(texts['']))}"
        for g, (group, position, shown) in enumerate(groups):
            for k in range(position.shape[1]):
                if not shown[t, k]:
                    if (g, k) in ids:
                        yield f"-{ids.pop((g, k)):x}"
                    continue
                properties = ""
                if (g, k) not in ids:
                    number += 1
                    ids[g, k] = number
                    label, kind = _acmi_text(group["labels"][k]), _acmi_text(group["type"])
                    properties = f",Type={kind},Name={label},Color={_acmi_text(_color(group, k))}"
                if event_text := "; ".join(texts.get(group["labels"][k], ())):
                    properties += f",Label={_acmi_text(event_text)}"
                yield f"{ids[g, k]:x},T={_acmi_place(position, shown, t, k)}{properties}"


def _acmi_place(position: np.ndarray, shown: np.ndarray, t: int, k: int) -> str:
    """Return longitude, latitude, altitude, roll, pitch, yaw, and the flat coordinates of a body."""
    here = position[t, k]
    after, before = min(t + 1, len(position) - 1), max(t - 1, 0)
    begin, end = position[before if shown[before, k] else t, k], position[after if shown[after, k] else t, k]
    x, y, z = float(here[0]), float(here[1]), float(here[2]) if len(here) == 3 else ALTITUDE_M
    yaw = ""
    if np.hypot(end[0] - begin[0], end[1] - begin[1]) > 1e-6:
        yaw = f"{math.degrees(math.atan2(end[0] - begin[0], end[1] - begin[1])) % 360:.1f}"
    return f"{x / METERS_PER_DEGREE:.7f}|{y / METERS_PER_DEGREE:.7f}|{z:.2f}|||{yaw}|{x:.2f}|{y:.2f}|{yaw}"


def _color(group: dict[str, Any], k: int) -> str:
    colors = group["color"].split(",")
    return colors[k * len(colors) // max(len(group["labels"]), 1)]


def _acmi_text(text: str) -> str:
    """Return a text of one line in which Tacview's separators are escaped."""
    return printable(" ".join(text.split()), keep="").replace("\\", "\\\\").replace(",", "\\,").replace("|", "/")


FORMATS = {"html": _html, "acmi": _acmi}
