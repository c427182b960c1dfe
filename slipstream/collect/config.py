"""The settings of `collect.*`."""

from __future__ import annotations

from dataclasses import dataclass

PIPELINES = ("off", "on", "on_policy")


@dataclass
class CollectConfig:
    """How batches get from the env to the learner."""

    pipeline: str = "off"  # on: collected beside the update, with weights max_staleness updates old; on_policy: beside logging and saving
    max_staleness: int = 1  # updates between the weights that collect and those that learn
    prefetch_count: int = 2  # batches that may wait for the learner
    threads: int = 0  # CPU threads of the collecting thread; 0: half of all

    def __post_init__(self) -> None:
        if self.pipeline not in PIPELINES:
            raise ValueError(f"unknown collect.pipeline '{self.pipeline}': use one of {', '.join(PIPELINES)}")
        if self.max_staleness < 1 or self.prefetch_count < 1 or self.threads < 0:
            raise ValueError("collect.max_staleness and collect.prefetch_count must be at least 1, collect.threads not negative")
