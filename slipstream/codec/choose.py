"""Which codec suits a key's frames: tried on a sample, size weighed against the time a frame takes to open."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slipstream.codec.frameformat import DELTA, LZ4, MASK, PALETTE, RAW, SHUFFLE

SAMPLE_BYTES = 1 << 19
SAMPLE_GROUPS = 6

# (codec, time to open a frame in copies of a raw frame (benchmarks/replay.py), the same for each frame of its group passed over)
_CANDIDATES = (
    (RAW, 1.0, 0.0),
    (PALETTE, 0.9, 0.0),
    (MASK, 1.2, 0.0),
    (PALETTE | LZ4, 1.6, 0.0),
    (LZ4, 2.0, 0.3),
    (MASK | LZ4, 2.4, 0.3),
    (SHUFFLE | LZ4, 4.0, 0.3),
    (PALETTE | DELTA | MASK | LZ4, 2.0, 0.1),
    (DELTA | MASK | LZ4, 2.5, 0.2),
    (DELTA | LZ4, 2.5, 0.4),
    (DELTA | SHUFFLE | LZ4, 5.0, 1.0),
)


def choose(frames: np.ndarray, group: int, size_of: Callable[[np.ndarray, int], int]) -> tuple[int, float]:
    """(codec, bytes a raw byte) for `frames`, uint8 [n, frame_bytes]; `size_of(frames, codec)` codes a group and gives its bytes.

    With groups of one frame time counts most; the larger the group, the more the user has asked for size.
    """
    sample = _sample(frames, group)
    raw = sum(part.size for part in sample)
    weight = 0.1 / min(group, 64) ** 0.5
    best, best_score, best_ratio = RAW, 1.0 + weight, 1.0
    for codec, cost, passing in _CANDIDATES:
        if codec == RAW or (codec & DELTA and group == 1) or (codec & PALETTE and not _few_values(sample[0], codec)):
            continue
        ratio = sum(min(part.size, size_of(part, codec)) for part in sample) / raw
        score = ratio + weight * (cost + passing * (group - 1) / 2) * (0.2 + ratio)
        if score < best_score:
            best, best_score, best_ratio = codec, score, ratio
    return best, best_ratio


def _sample(frames: np.ndarray, group: int) -> list[np.ndarray]:
    """Some whole groups, from all over the block."""
    groups = max(1, len(frames) // group)
    each = group * frames.shape[1]
    number = int(min(groups, SAMPLE_GROUPS, max(1, SAMPLE_BYTES // each)))
    starts = np.linspace(0, groups - 1, number).astype(int) * group
    return [frames[s : s + group] for s in starts]


def _few_values(frames: np.ndarray, codec: int) -> bool:
    return True
