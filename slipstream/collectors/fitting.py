"""What a pipeline is given must fit together: base collector, policy, lane and numbers; what does not is refused with the remedy."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from slipstream.collectors.handover import Handover
from slipstream.collectors.sync import SyncDataCollector

LANES = ("auto", "thread", "stream")


def handover_of(base: Any, policy: nn.Module | None, on_policy: bool) -> Handover | None:
    """How weights get from the module that learns to the one that acts; None where nothing is handed over."""
    acting = getattr(base, "policy", None)
    if isinstance(base, SyncDataCollector):
        if policy is not None and policy is not acting:
            raise ValueError("policy= is for other collectors than slipstream's own: this one's policy is known")
        return Handover(acting, direct=on_policy) if isinstance(acting, nn.Module) else None
    if policy is not None:
        if not isinstance(acting, nn.Module):
            raise ValueError("policy= needs a base collector with an attribute `policy`, a module that acts")
        return Handover(policy, acting, direct=on_policy)
    if isinstance(acting, nn.Module) and not on_policy:
        warnings.warn(
            "the base collector has a policy, and is read ahead: if that module is the one you train, it acts while its weights are "
            "written. Build the base with copy.deepcopy(policy) and give policy=policy here, or on_policy=True",
            stacklevel=3,
        )
    return None


def lane_of(lane: str, ours: SyncDataCollector | None, staleness: int) -> str:
    """The lane asked for; for "auto" the one that suits where the env lives."""
    on_gpu = ours is not None and torch.device(ours.env.device).type == "cuda"
    lane = ("stream" if on_gpu else "thread") if lane == "auto" else lane
    if lane == "stream" and not on_gpu:
        raise ValueError("lane='stream' needs slipstream's SyncDataCollector over an env on a GPU: use lane='thread'")
    if lane == "stream" and staleness > 1:
        raise ValueError(
            f"max_staleness={staleness} gains nothing on one GPU, where rollouts queue behind one another: use 1"
        )
    return lane


def check_ring(base: Any, ahead: int, lane: str) -> None:
    """Refuses batches that would be overwritten while the learner reads them."""
    if not getattr(base, "return_same_td", False) or lane == "stream":
        return
    if not isinstance(base, SyncDataCollector):
        raise ValueError(
            "the base collector overwrites its batches (return_same_td=True) while the learner reads them: give it False"
        )
    if base.ring_size < ahead + 1:
        raise ValueError(
            f"return_same_td=True with ring_size={base.ring_size}: batches would be overwritten while the learner reads them. "
            f"Use ring_size={ahead + 1} or more, or return_same_td=False"
        )


def check_numbers(prefetch_count: int, max_staleness: int, lane: str, threads: int) -> None:
    """Refuses numbers out of their limits, and lanes that there are not."""
    if prefetch_count < 1:
        raise ValueError(f"prefetch_count ({prefetch_count}) must be at least 1")
    if max_staleness < 1:
        raise ValueError(
            f"max_staleness ({max_staleness}) must be at least 1; for data that are not stale use on_policy=True"
        )
    if lane not in LANES:
        raise ValueError(f"unknown lane {lane!r}: use one of {', '.join(LANES)}")
    if threads < 0:
        raise ValueError(f"threads ({threads}) must not be negative; 0 leaves them as they are")
