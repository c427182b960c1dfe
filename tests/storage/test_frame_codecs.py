"""Blocks of frames: every codec gives back what it was given, and NumPy decodes the same from the same bytes."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_decoder import decode_block

from slipstream.storage.codec.block_coder import QUICK, BlockCoder
from slipstream.storage.codec.registry import HEADER, HEADER_BYTES, CodecError, codec_name, parse_codec, read_header

STEPS = [("palette", ""), ("delta", ""), ("mask", ""), ("lz4", "")]
CODECS = ["+".join(step for step in steps if step) or "raw" for steps in itertools.product(*STEPS)]
DTYPES = ["bool", "uint8", "int8", "float16", "uint16", "int32", "float32", "int64", "float64", "complex64"]


def coder(frames: np.ndarray, group: int, block_rows: int = 240) -> BlockCoder:
    return BlockCoder(frames[0].nbytes, frames.dtype.itemsize, group, block_rows)


def as_bytes(frames: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(frames).reshape(-1).view(np.uint8).reshape(len(frames), -1)


def opened(made: BlockCoder, block: np.ndarray, rows: np.ndarray, verify: bool = True) -> np.ndarray:
    out = np.full((len(rows), made.frame_bytes), 0xA5, np.uint8)
    header = read_header(block)
    made.gather(np.array([block.ctypes.data]), 0, 0, header.rows, rows, out, verify)
    return out


def some_frames(rng: np.random.Generator, rows: int, shape: tuple[int, ...], dtype: str, kind: str) -> np.ndarray:
    """Frames of the kinds that codecs are made for, and noise."""
    nbytes = np.dtype(dtype).itemsize
    size = (rows, *shape)
    if kind == "noise":
        return (
            rng.integers(0, 256, (*size, nbytes), dtype=np.uint8).view(dtype)[..., 0]
            if dtype != "bool"
            else rng.random(size) < 0.5
        )
    if kind == "sparse":
        return np.where(rng.random(size) < 0.2, rng.normal(0, 50, size), 0).astype(dtype)
    if kind == "few":
        return rng.choice(np.array([0, 1, 2, 5, 7]), size).astype(dtype)
    if kind == "still":
        frames = np.repeat(rng.normal(0, 50, (1, *shape)), rows, 0)
        frames[:, 0] += np.arange(rows).reshape(-1, *[1] * (len(shape) - 1))
        return frames.astype(dtype)
    return np.zeros(size, dtype)


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    shape=st.sampled_from([(1,), (3,), (7, 5), (64,), (65,), (1, 36, 4), (130,)]),
    dtype=st.sampled_from(DTYPES),
    kind=st.sampled_from(["noise", "sparse", "few", "still", "zero"]),
    group=st.sampled_from([1, 2, 5, 8, 40]),
    codec=st.sampled_from(CODECS),
    level=st.sampled_from([QUICK, 3, 9]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_codec_gives_back_what_it_was_given(seed, rows, shape, dtype, kind, group, codec, level):
    rng = np.random.default_rng(seed)
    frames = some_frames(rng, rows, shape, dtype, kind)
    raw = as_bytes(frames)
    asked = rng.integers(0, rows, 2 * rows + 1)
    made = coder(frames, group)
    block = made.encode(raw, 0, parse_codec(codec), level, True).copy()
    assert codec_name(read_header(block).codec) == codec
    assert (opened(made, block, asked) == raw[asked]).all()
    assert (opened(made, block, asked, verify=False) == raw[asked]).all()
    assert (decode_block(block) == raw).all()


@pytest.mark.parametrize("values", [1, 2, 3, 4, 5, 16, 17, 256, 257])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_palettes_of_any_number_of_values(values, width):
    values = min(values, 1 << (8 * width))
    rng = np.random.default_rng(values)
    chosen = rng.permutation(1 << 20 if width > 2 else 1 << (8 * width))[:values].astype(f"u{width}")
    frames = np.resize(chosen, (3, 4001))
    made = coder(frames, 3)
    block = made.encode(as_bytes(frames), 0, parse_codec("palette"), 9, True)
    assert (opened(made, block, np.array([2, 0, 1, 1])) == as_bytes(frames)[[2, 0, 1, 1]]).all()
    bits = next((b for b in (1, 2, 4, 8) if values <= 1 << b), None)
    packed = (
        frames.nbytes if bits is None else min(frames.nbytes, 1 + values * width + 3 * ((4001 * bits + 31) // 32 * 4))
    )
    assert read_header(block).coded == packed


@pytest.mark.parametrize("codec", ["raw", "lz4", "mask", "palette", "delta+mask+lz4", "palette+lz4"])
def test_every_flipped_byte_is_reported(codec):
    rng = np.random.default_rng(3)
    frames = some_frames(rng, 6, (40,), "float32", "few")
    made = coder(frames, 2, block_rows=6)
    good = made.encode(as_bytes(frames), 0, parse_codec(codec), 9, True).copy()
    header = read_header(good)
    for at in range(header.nbytes):
        block = good.copy()
        block[at] ^= rng.integers(1, 256)
        if at < HEADER.size or HEADER_BYTES <= at < header.payload:
            with pytest.raises(CodecError):
                read_header(block)
        elif header.payload <= at < header.payload + header.coded:
            out = np.empty((6, 160), np.uint8)
            with pytest.raises(CodecError, match=r"rows \d to \d \(block 0\)"):
                made.gather(np.array([block.ctypes.data]), 0, 0, 6, np.arange(6), out, True)


@given(seed=st.integers(0, 2**32 - 1), codec=st.sampled_from(CODECS))
@settings(max_examples=120, deadline=None)
def test_damaged_groups_read_without_checksums_harm_nothing(seed, codec):
    """The answer may be wrong, but nothing outside of the output is written and nothing crashes."""
    rng = np.random.default_rng(seed)
    frames = some_frames(rng, 8, (50,), "float32", "few")
    made = coder(frames, 4, block_rows=8)
    block = made.encode(as_bytes(frames), 0, parse_codec(codec), 9, True).copy()
    header = read_header(block)
    for _ in range(5):
        block[header.payload + rng.integers(header.coded)] = rng.integers(256)
    guarded = np.full((10, made.frame_bytes), 77, np.uint8)
    with contextlib.suppress(CodecError):
        made.gather(np.array([block.ctypes.data]), 0, 0, 8, rng.integers(0, 8, 8), guarded[1:9], False)
    assert (guarded[[0, 9]] == 77).all()


def test_codec_names():
    assert parse_codec("raw") == 0 and codec_name(parse_codec("palette+delta+mask+lz4")) == "palette+delta+mask+lz4"
    with pytest.raises(ValueError, match="unknown step 'gzip'"):
        parse_codec("delta+gzip")
