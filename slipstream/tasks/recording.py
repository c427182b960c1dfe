"""What the recordings of all tasks share."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any


def describe_policy(trained: Any, env_config: Any) -> dict[str, Any]:
    """Return the facts of a recording: when it was made, the env's settings, the policy's file and its hash.

    `trained` is a `LoadedPolicy`, or None if the policy is in no file.
    """
    facts: dict[str, Any] = {"created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    plain = bool | int | float | str | None | dict | list | tuple
    facts["env"] = {key: value for key, value in dataclasses.asdict(env_config).items() if isinstance(value, plain)}
    if trained is not None:
        facts["policy"] = trained.name
        facts["policy_sha256"] = trained.sha256
    return facts


def body_group(name: str, labels: list[str], kind: str, color: str, shown: str | None = None) -> dict[str, Any]:
    """Return a group of bodies of a recording: their names, ACMI's type and color, and the column of those shown."""
    return {
        "name": name,
        "position": f"{name}.position",
        "shown": shown,
        "labels": labels,
        "type": kind,
        "color": color,
    }
