"""Images and sequences of images as LZ4 frames, for files and sockets. Replay columns do not use them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from slipstream.storage.codec.registry import CodecError

P = ParamSpec("P")
R = TypeVar("R")


def with_aliases(**aliases: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take keyword arguments under other names too: {other name: parameter}."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            named: Any = {aliases.get(name, name): value for name, value in kwargs.items()} if kwargs else kwargs
            return function(*args, **named)

        return call

    return decorate


def compress_image(img: np.ndarray | bytes, level: int = 9) -> bytes:
    """Compress one image to an LZ4 frame; `level` 0 (fast) to 16."""
    raw: Any = np.ascontiguousarray(img).reshape(-1).view(np.uint8).data if isinstance(img, np.ndarray) else img
    return _lz4_frame().compress(raw, compression_level=level, store_size=True)


def decompress_image(data: bytes, shape: tuple[int, ...] | None = None, dtype: Any = np.uint8) -> np.ndarray:
    """Return the image of `compress_image`; without a shape a flat array. Raises CodecError."""
    frame, expected = _lz4_frame(), None if shape is None else math.prod(shape) * np.dtype(dtype).itemsize
    try:
        size = frame.get_frame_info(data)["content_size"]
        if expected is not None and size != expected:  # before any memory is taken
            raise CodecError(f"shape and dtype need {expected} bytes, the data have {size}")
        if size > 255 * len(data):  # the most that LZ4 can compress
            raise CodecError(f"{len(data)} bytes cannot hold the {size} that they claim")
        flat = np.frombuffer(frame.decompress(data, return_bytearray=True), dtype)
    except (RuntimeError, ValueError) as error:
        raise error if isinstance(error, CodecError) else CodecError(f"no LZ4 frame: {error}") from error
    return flat if shape is None else flat.reshape(shape)


def compress_image_seq(images: np.ndarray | Iterable[np.ndarray], level: int = 9) -> bytes:
    """Compress images of one shape and dtype to one LZ4 frame: smaller than each alone, decompressed only together."""
    return compress_image(images if isinstance(images, np.ndarray) else np.stack(list(images)), level)


@with_aliases(compressed_data="data", batch_size="seq_len")
def decompress_image_seq(data: bytes, image_shape: tuple[int, ...], seq_len: int, dtype: Any = np.uint8) -> np.ndarray:
    """Return [seq_len, *image_shape] of `compress_image_seq`. Raises CodecError.

    `data` may be called compressed_data, and `seq_len` batch_size.
    """
    return decompress_image(data, (seq_len, *image_shape), dtype)


def _lz4_frame() -> Any:
    import lz4.frame

    return lz4.frame
