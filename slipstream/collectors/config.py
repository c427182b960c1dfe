"""The configuration section `collect.*`."""

from __future__ import annotations

from dataclasses import dataclass

PIPELINES = ("off", "on", "on_policy")


@dataclass
class CollectConfig:
    """Configure how batches get from the env to the learner."""

    pipeline: str = "off"  # on: collect beside the update, with weights max_staleness updates old; on_policy: only beside logging and saving
    max_staleness: int = 1  # updates between the weights that collect and those that learn
    prefetch_count: int = 2  # batches that may wait for the learner
    compress: str = "off"  # observations to keep as compressed blocks: all, or names joined by commas, such as lidar
    compression_level: int = 1  # 0 to 16: 1 is fast, 2 to 12 smaller and slower
    pieces: int = 1  # rollouts per compressed batch: only one of them is in memory uncompressed
    threads: int = 0  # CPU threads of the collecting thread; 0 for half of all

    def __post_init__(self) -> None:
        if self.pipeline not in PIPELINES:
            raise ValueError(f"unknown collect.pipeline '{self.pipeline}': use one of {', '.join(PIPELINES)}")
        if self.max_staleness < 1 or self.prefetch_count < 1 or self.threads < 0:
            raise ValueError(
                "collect.max_staleness and collect.prefetch_count must be at least 1, collect.threads not negative"
            )
        if not 0 <= self.compression_level <= 16 or self.pieces < 1:
            raise ValueError("collect.compression_level must be 0 to 16, collect.pieces at least 1")
        if self.pieces > 1 and (self.compress == "off" or self.pipeline != "off"):
            raise ValueError(
                "collect.pieces joins compressed batches: set collect.compress=all, and leave collect.pipeline=off"
            )

    def compressed_keys(self) -> list[str] | None:
        """Return the names of the observations to compress; None for all."""
        return None if self.compress == "all" else [name.strip() for name in self.compress.split(",")]
