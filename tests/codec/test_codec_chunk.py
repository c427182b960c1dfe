import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.codec import (
    CHUNK_BYTES,
    CodecError,
    Scratch,
    Workers,
    decode_chunk,
    dequantise_moments,
    encode_chunk,
    moments_nbytes,
    quantise_moments,
)
from slipstream.codec.chunk import DIFFERENCE, MASK, PLANES, RAW


def round_trip(raw, width, base=None, level=1, scratch=None):
    method, payload = encode_chunk(raw, width, base, level, scratch)
    data = b"".join(bytes(part) for part in payload)
    assert len(data) <= raw.nbytes
    out = np.full_like(raw, 255)
    assert decode_chunk(memoryview(data + b"\0" * 7), method, width, out, base) == len(data)
    assert np.array_equal(out, raw)
    return method, len(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=3000), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.integers(0, 3), st.integers(1, 200))
def test_any_bytes_come_back(data, width, with_base, level, repeat):
    raw = np.frombuffer(data * repeat, np.uint8)[: CHUNK_BYTES // 8]
    raw = raw[: raw.size // width * width]
    round_trip(raw, width, np.roll(raw, 3) if with_base else None, level, Scratch())


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
    assert method & DIFFERENCE and size / newer.nbytes < 0.45
    unrelated = np.random.default_rng(5).integers(0, 256, 1 << 20, dtype=np.uint8)
    method, _ = round_trip(newer.view(np.uint8), 4, unrelated)
    assert not method & DIFFERENCE


def test_noise_stays_raw():
    noise = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    for width in (1, 2, 4, 8):
        assert round_trip(noise, width) == (RAW, 1 << 20)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_payloads_raise_or_give_bytes_but_never_crash(data):
    values = np.random.default_rng(0).integers(0, 9, 4096).astype(np.float32)
    method, payload = encode_chunk(values.view(np.uint8), 4)
    damaged = bytearray(b"".join(bytes(part) for part in payload))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(bytes(damaged))[: data.draw(st.integers(0, len(damaged)))]
    out = np.empty(values.nbytes, np.uint8)
    with contextlib.suppress(CodecError):
        decode_chunk(cut, data.draw(st.integers(0, 9)), data.draw(st.sampled_from([1, 2, 4, 8])), out)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2000), st.booleans(), st.integers(0, 100), st.integers(-30, 30))
def test_moments_in_eight_bits_are_near_and_stay_put(count, signed, seed, exponent):
    values = (np.random.default_rng(seed).standard_normal(count) * 2.0**exponent).astype(np.float32)
    values = values if signed else values**2
    values[::7] = 0
    coded = quantise_moments(values, signed)
    assert coded.size == moments_nbytes(count)
    opened = dequantise_moments(coded, count, signed)
    for start in range(0, count, 256):
        a, b = values[start : start + 256], opened[start : start + 256]
        floor = np.abs(a).max() * (2.0**-14 if signed else 2.0**-30)
        assert np.all(np.abs(a - b) <= np.abs(a) / 16 + floor)
        assert np.all((b == 0) >= (a == 0))
        assert signed or np.all((b == 0) == (a == 0))
    assert np.array_equal(quantise_moments(opened, signed), coded)


def test_moments_that_overflowed_stay_huge():
    opened = dequantise_moments(quantise_moments(np.array([np.inf, 1.0], np.float32), False), 2, False)
    assert opened[0] == np.inf and opened[1] > 0


def test_workers_keep_order_and_raise_what_failed():
    workers = Workers(2)
    assert list(workers.map(lambda x: x * x, range(50))) == [x * x for x in range(50)]
    with pytest.raises(ZeroDivisionError):
        list(workers.map(lambda x: 1 // (3 - x), range(50)))
    assert list(workers.map(str, [1])) == ["1"]
    workers.close()
