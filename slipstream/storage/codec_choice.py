"""A column's codec: named by the user, or chosen from the data and looked at again as they change."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

import numpy as np

from slipstream.storage.codec.blockcode import QUICK, BlockCoder
from slipstream.storage.codec.choose import CANDIDATES, choose
from slipstream.storage.codec.frameformat import LZ4, codec_name, parse_codec

CHOOSE_AFTER = (4, 32, 256)  # blocks after which the codec is looked at again; the last one repeats


class CodecChoice:
    """The codec of the next block. `seals`: blocks are coded again in the background, which then also chooses.

    weight, candidates: see `choose`. patience: blocks after which one that came out clearly larger than the sample lets it look again.
    """

    def __init__(
        self,
        codec: str,
        coder: BlockCoder,
        level: int,
        seals: bool,
        weight: float | None = None,
        patience: int = CHOOSE_AFTER[0],
        candidates: Sequence[int] = CANDIDATES,
    ) -> None:
        self._coder, self._level, self._seals, self._weight, self._patience = coder, level, seals, weight, patience
        self._candidates = candidates
        self._auto = codec == "auto"
        self._codec: int | None = None if self._auto else parse_codec(codec)
        self._ratio = 1.0  # of the sample, when it was chosen
        self._choices, self._until, self._since = 0, 0, 0
        self._drifted = False  # blocks take clearly more than that
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """`auto` before the first block."""
        return "auto" if self._codec is None else codec_name(self._codec)

    def pick(self, frames: np.ndarray, slow: bool) -> int:
        """The codec for a block of these frames, uint8 [n, frame_bytes], coded with the slow setting or the fast one."""
        if not self._auto or (
            self._seals and not slow
        ):  # whoever appends does not try codecs: LZ4 until the background has chosen
            return LZ4 if self._codec is None else self._codec
        with self._lock:
            if self._until <= 0 or (self._drifted and self._since >= self._patience):
                size_of = functools.partial(self._coder.coded_bytes, level=self._level if slow else QUICK)
                self._codec, self._ratio = choose(
                    frames, self._coder.group, self._coder.width, size_of, self._weight, self._candidates
                )
                self._until = CHOOSE_AFTER[min(self._choices, len(CHOOSE_AFTER) - 1)]
                self._choices += 1
                self._since, self._drifted = 0, False
            self._until -= 1
            self._since += 1
            assert self._codec is not None
            return self._codec

    def coded(self, ratio: float, slow: bool) -> None:
        """A block took `ratio` of its raw bytes."""
        self._drifted |= slow == self._seals and ratio > 1.3 * self._ratio + 0.02

    @property
    def drifted(self) -> bool:
        """Whether a block has come out clearly larger than the sample since the codec was chosen."""
        return self._auto and self._drifted

    def after_fork(self) -> None:
        """In a child: whoever was choosing is not there."""
        self._lock = threading.Lock()
