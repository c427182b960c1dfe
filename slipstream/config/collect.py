"""The configuration sections `collect.*` and `actors.*`."""

from __future__ import annotations

from dataclasses import dataclass

from slipstream.config.validation import check_range

PIPELINES = ("off", "on", "on_policy")


@dataclass
class CollectConfig:
    """Configure how batches get from the env to the learner."""

    pipeline: str = "off"  # on: collect beside the update (weights max_staleness updates old); on_policy: only beside logging and saving
    max_staleness: int = 1  # updates between the weights that collect and those that learn
    prefetch_count: int = 2  # batches that may wait for the learner
    compress: str = "off"  # observations to keep as compressed blocks: all, or names joined by commas, such as lidar
    compression_level: int = 1  # 0 to 16: 1 is fast, 2 to 12 smaller and slower
    threads: int = 0  # CPU threads of the collecting thread; 0 for half of all

    def __post_init__(self) -> None:
        if self.pipeline not in PIPELINES:
            raise ValueError(f"unknown collect.pipeline '{self.pipeline}': use one of {', '.join(PIPELINES)}")
        check_range(self, "max_staleness", "prefetch_count", minimum=1, section="collect.")
        check_range(self, "threads", minimum=0, section="collect.")
        check_range(self, "compression_level", minimum=0, maximum=16, section="collect.")

    @property
    def collector(self) -> str:
        """The name, in the registry, of the collector that these settings choose."""
        if self.pipeline != "off":
            return "pipelined"
        return "sync" if self.compress == "off" else "compressed"

    def compressed_keys(self) -> list[str] | None:
        """Return the names of the observations to compress; None for all. `compress` must not be off."""
        return None if self.compress == "all" else [name.strip() for name in self.compress.split(",")]


@dataclass
class ActorsConfig:
    """Configure actors that collect on a Ray cluster (docs/scale.md)."""

    count: int | None = None  # processes that collect, each env.num_envs (pip install 'slipstream-rl[ray]')
    address: str | None = None  # of a Ray cluster: auto, HOST:6379, ray://HOST:10001; null starts one on this machine
    max_staleness: int = 1  # updates between the weights that collect and those that learn; 0: actors wait for them
    cpus: int = 1  # cores of each actor

    def __post_init__(self) -> None:
        if self.count is None and self.address is not None:
            raise ValueError(f"actors.address={self.address} needs a number of actors: give actors.count=8")
        check_range(self, "count", "cpus", minimum=1, section="actors.")
        check_range(self, "max_staleness", minimum=0, section="actors.")
