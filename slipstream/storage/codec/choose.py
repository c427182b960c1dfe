"""Which codec suits a key's frames: tried on a sample, size weighed against the time a frame takes to open and to seal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slipstream.storage.codec.frameformat import DELTA, LZ4, MASK, PALETTE, RAW, SHUFFLE, ZSTD

SAMPLE_BYTES = 1 << 19
SAMPLE_GROUPS = 6
LEAST_GAIN = 0.95  # a codec that saves less than a twentieth is not worth its time
SAMPLE_FRAMES = 16  # of a group, unless they are small

CANDIDATES = (
    PALETTE,
    MASK,
    LZ4,
    PALETTE | LZ4,
    MASK | LZ4,
    SHUFFLE | LZ4,
    PALETTE | DELTA | MASK | LZ4,
    DELTA | MASK | LZ4,
    DELTA | SHUFFLE | LZ4,
)


def choose(
    frames: np.ndarray, group: int, width: int, size_of: Callable[[np.ndarray, int], int], weight: float | None = None,
    candidates: Sequence[int] = CANDIDATES,
) -> tuple[int, float]:  # fmt: skip
    """(codec, bytes a raw byte) for `frames`, uint8 [n, frame_bytes] of words of `width` bytes; `size_of(frames, codec)` codes one group.

    With groups of one frame twice the time must save half of the bytes; the larger the group, the more the user has asked for size.
    `weight` says outright how much time counts against size: as so many powers of it. `candidates`: the codecs to try.
    """
    sample = _sample(frames, group)
    raw = sum(part.size for part in sample)
    weight = max(0.1, 1 / group**0.8) if weight is None else weight
    best, best_score, best_ratio = RAW, _open_time(RAW, 1.0, width) ** weight, 1.0
    for codec in candidates:
        if (
            (codec & DELTA and group == 1)
            or (codec & SHUFFLE and width == 1)
            or (codec & PALETTE and not _few_values(sample[0], width))
        ):
            continue
        ratio = sum(min(part.size, size_of(part, codec)) for part in sample) / raw
        if ratio > LEAST_GAIN:
            continue
        # LZ4-HC looks at every byte it is given: packed numbers are sealed several times faster
        seal = (0.1 / (2 * width) if codec & PALETTE else 0.1) if codec & (LZ4 | ZSTD) else 0.0
        score = ratio * _open_time(codec, ratio, width) ** weight * (1 + seal)
        if score < best_score:
            best, best_score, best_ratio = codec, score, ratio
    return best, best_ratio


def _open_time(codec: int, ratio: float, width: int) -> float:
    """Time to open one frame, in plain copies of it: fitted to benchmarks/replay.py, batches of 512 on one thread."""
    if codec == RAW:
        return 1.5
    time = 0.5
    if codec & (LZ4 | ZSTD):
        time += 8 * ratio
    if codec & PALETTE:
        time += 0.4 if width >= 4 else 1.6
    if codec & MASK:
        time += 0.5
    if codec & SHUFFLE:
        time += 2.5
    if codec & DELTA:
        time += 1.0
    return time


def _sample(frames: np.ndarray, group: int) -> list[np.ndarray]:
    """Some groups from all over the block; of groups of many large frames the first frames."""
    groups = max(1, len(frames) // group)
    each = group * frames.shape[1]
    number = int(min(groups, SAMPLE_GROUPS, max(1, SAMPLE_BYTES // each)))
    length = group if each <= 2 * SAMPLE_BYTES else min(group, SAMPLE_FRAMES)
    starts = np.linspace(0, groups - 1, number).astype(int) * group
    return [frames[s : s + length] for s in starts]


def _few_values(frames: np.ndarray, width: int) -> bool:
    """Whether the first numbers of a group leave hope that 256 values are enough."""
    return width == 1 or np.unique(frames.reshape(-1).view(f"<u{width}")[:4096]).size <= 256
