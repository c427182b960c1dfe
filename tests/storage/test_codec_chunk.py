import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.storage.codec.chunks import (
    CHUNK_BYTES,
    LEAST,
    decay,
    decode_chunk,
    encode_chunk,
    find_factor,
    take_scratch,
    zstd_compressor,
    zstd_decompress,
)
from slipstream.storage.codec.registry import DECAY, DELTA, MASK, PLANES, RAW, CodecError

SCRATCH = take_scratch()


def round_trip(raw, width, base=None):
    method, payload = encode_chunk(raw, width, SCRATCH, base)
    data = bytes(payload)
    assert len(data) <= raw.nbytes
    out = np.full_like(raw, 255)
    decode_chunk(memoryview(data), method, width, out, SCRATCH[0], base)
    assert np.array_equal(out, raw)
    return method, len(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=3000), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.integers(1, 200))
def test_any_bytes_come_back(data, width, with_base, repeat):
    raw = np.frombuffer(data * repeat, np.uint8)[: CHUNK_BYTES // 8]
    raw = raw[: raw.size // width * width]
    round_trip(raw, width, np.roll(raw, 3) if with_base else None)


def test_exponents_are_coded_and_mantissas_kept():
    weights = np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32)
    method, size = round_trip(weights.view(np.uint8), 4)
    assert method == PLANES and 0.80 < size / weights.nbytes < 0.85


def test_zeros_go_to_a_mask():
    values = np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32)
    values[np.random.default_rng(1).random(values.size) < 0.5] = 0
    method, size = round_trip(values.view(np.uint8), 4)
    assert method == PLANES | MASK and size / values.nbytes < 0.45


def test_a_small_change_is_coded_as_a_difference():
    older = np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32)
    newer = older * np.float32(1.0001)
    method, size = round_trip(newer.view(np.uint8), 4, older.view(np.uint8))
    assert method & DELTA and size / newer.nbytes < 0.45
    unrelated = np.random.default_rng(5).integers(0, 256, 1 << 20, dtype=np.uint8)
    method, _ = round_trip(newer.view(np.uint8), 4, unrelated)
    assert not method & DELTA


def shrunk(older, factor, share, seed=1):
    """What Adam makes of its moments when all but `share` of them saw no gradient."""
    generator = np.random.default_rng(seed)
    newer = older * np.float32(factor)
    learning = generator.random(older.size) < share
    newer[learning] += np.float32(0.1) * generator.standard_normal(int(learning.sum())).astype(np.float32)
    return newer


@pytest.mark.parametrize("factor", [0.9, 0.999, 0.9**10, 0.999**100])
def test_what_only_decayed_costs_next_to_nothing(factor):
    older = np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32)
    newer = shrunk(older, factor, share=0.3)
    method, size = round_trip(newer.view(np.uint8), 4, older.view(np.uint8))
    assert method == PLANES | DELTA | MASK | DECAY
    learning = int((newer != older * np.float32(factor)).sum())
    assert size < newer.size // 8 + 4 * learning  # a bit each, and those that learned


def test_no_factor_is_found_where_there_is_none():
    older = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    other = np.random.default_rng(1).standard_normal(4096).astype(np.float32)
    for newer in (older, other, older + np.float32(0.001) * other, np.zeros_like(older), np.full_like(older, np.nan)):
        assert find_factor(newer.view(np.uint32), older.view(np.uint32)) is None


SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1.2e-38, 2.0**-96, 2.0**-94, 3.4e38, -1.5], np.float32
)


def test_numbers_that_processors_disagree_about_do_not_decay():
    bits = np.concatenate(
        [SPECIAL.view(np.uint32), np.array([0x7F800001, 0xFFC12345, 0x7FFFFFFF], np.uint32)]
    )  # NaNs with a payload
    out = decay(bits, np.float32(0.9), np.empty_like(bits))
    plain = np.array([9, 10, 11])
    assert np.array_equal(out.view(np.float32)[plain], SPECIAL[plain] * np.float32(0.9))
    assert np.array_equal(np.delete(out, plain), np.delete(bits, plain))
    smallest = np.array([2.0**-95], np.float32)
    assert decay(smallest.view(np.uint32), LEAST, np.empty(1, np.uint32)).view(np.float32) == 2.0**-115


def test_a_program_that_flushes_denormals_reads_the_same_bits():
    torch = pytest.importorskip("torch")
    older = np.tile(SPECIAL, 6000)
    older[::3] = np.random.default_rng(0).standard_normal(older[::3].size).astype(np.float32)
    newer = older.copy()
    newer[::3] = shrunk(older[::3], 0.9, 0.2)
    method, payload = encode_chunk(newer.view(np.uint8), 4, SCRATCH, older.view(np.uint8))
    data = memoryview(bytes(payload))
    assert method & DECAY
    out = np.empty(newer.nbytes, np.uint8)
    flushed = torch.set_flush_denormal(True)
    try:
        decode_chunk(data, method, 4, out, SCRATCH[0], older.view(np.uint8))
    finally:
        torch.set_flush_denormal(False)
    assert flushed and np.array_equal(out, newer.view(np.uint8))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.floats(2**-10, 0.999), st.floats(0, 0.9), st.integers(17, 70_000))
def test_decayed_numbers_among_any_others_come_back(seed, factor, share, count):
    generator = np.random.default_rng(seed)
    older = generator.integers(0, 2**32, count, dtype=np.uint32)  # any bits: NaNs, infinities and denormals among them
    newer = decay(older, np.float32(factor), np.empty_like(older))
    others = generator.random(count) < share
    newer[others] = generator.integers(0, 2**32, int(others.sum()), dtype=np.uint32)
    round_trip(newer.view(np.uint8), 4, older.view(np.uint8))


def test_noise_stays_raw():
    noise = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    for width in (1, 2, 4, 8):
        assert round_trip(noise, width) == (RAW, 1 << 20)


@pytest.mark.parametrize("cut", [1, 9, 20, 100])
def test_a_frame_that_is_cut_short_is_damaged(cut):
    raw = np.arange(5000).astype(np.uint8)
    frame, out = zstd_compressor(1).compress(raw), np.empty_like(raw)
    zstd_decompress(frame, out)
    assert np.array_equal(out, raw)
    with pytest.raises(CodecError):  # memory that was not filled must not be taken for data
        zstd_decompress(frame[:-cut], out)
    with pytest.raises(CodecError, match="5000 bytes where 4999 are expected"):
        zstd_decompress(frame, out[1:])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_payloads_raise_or_give_bytes_but_never_crash(data):
    values = np.random.default_rng(0).integers(0, 9, 4096).astype(np.float32)
    base = np.roll(values, 1) if data.draw(st.booleans()) else None
    if base is not None:
        values = shrunk(base, 0.9, 0.2)
    older = None if base is None else base.view(np.uint8)
    method, payload = encode_chunk(values.view(np.uint8), 4, SCRATCH, older)
    damaged = bytearray(bytes(payload))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(bytes(damaged))[: data.draw(st.integers(0, len(damaged)))]
    out = np.empty(values.nbytes, np.uint8)
    with contextlib.suppress(CodecError):
        other = data.draw(st.one_of(st.just(method), st.integers(0, 17)))
        decode_chunk(cut, other, data.draw(st.sampled_from([1, 2, 4, 8])), out, SCRATCH[0], older)
