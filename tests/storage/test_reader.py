"""The reader's checks: numbers, texts, views and sizes that a file claims."""

import pytest

from slipstream.storage.errors import DamagedFileError, SaveError, TooLargeError
from slipstream.storage.tensor_file import Reader, default_max_bytes


@pytest.fixture
def reader():
    return Reader("file.slip", max_bytes=1 << 20)


@pytest.mark.parametrize("value", [-1, 1 << 63, 1.0, True, "1", None, [1]])
def test_only_integers_in_range_are_integers(reader, value):
    with pytest.raises(DamagedFileError, match="file.slip: a count is"):
        reader.integer(value, "a count")


def test_products_do_not_overflow(reader):
    assert reader.product([3, 0, 5], "a shape") == 0
    for sizes in ([1 << 32, 1 << 31], [1 << 62, 4, 0]):
        with pytest.raises(DamagedFileError, match="too large"):
            reader.product(sizes, "a shape")


def test_memory_is_claimed_before_it_is_taken(reader):
    reader.claim(1 << 19)
    with pytest.raises(TooLargeError, match=r"file.slip: rows would take 1.13e\+06 GB"):
        reader.claim(reader.product([1 << 40, 1 << 10], "rows"), "rows")
    with pytest.raises(TooLargeError):
        reader.claim(1)


@pytest.mark.parametrize("shape,stride,offset", [([4], [1], 1), ([2, 2], [3, 1], 0), ([5], [1], 0), ([2], [1, 1], 0)])
def test_a_view_past_the_end_is_refused(reader, shape, stride, offset):
    reader.check_view([4], [1], 0, 4, 16, "a tensor")
    with pytest.raises(DamagedFileError, match="a tensor"):
        reader.check_view(shape, stride, offset, 4, 16, "a tensor")


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{", b"\xff", b"[1,", b""])
def test_malformed_json_is_refused(text):
    with pytest.raises(DamagedFileError, match="file.slip: the index is malformed"):
        Reader("file.slip").json(text)


def test_json_of_many_small_values_counts_as_the_memory_it_takes(reader):
    with pytest.raises(TooLargeError):
        reader.json(b"[" + b"[]," * 100_000 + b"[]]")


def test_a_text_from_a_file_is_shown_escaped_and_short(reader):
    with pytest.raises(DamagedFileError) as info:
        reader.integer("\x1b[31m" + "a" * 1000, "a count")
    assert "\x1b" not in str(info.value) and len(str(info.value)) < 200
    with pytest.raises(DamagedFileError, match=r"^file.slip: \\x1bkey\\n is there twice$"):
        reader.fail("\x1bkey\n is there twice")


@pytest.mark.parametrize("name", ["quint8", "qint32", "zeros", 3])
def test_only_plain_dtypes_of_tensors_are_read(reader, name):
    reader.torch_dtype("float8_e5m2", "a dtype")
    with pytest.raises(DamagedFileError, match="a dtype is"):
        reader.torch_dtype(name, "a dtype")


def test_the_default_budget_can_be_set(monkeypatch):
    assert 1 << 20 < default_max_bytes() < 1 << 50
    monkeypatch.setenv("SLIPSTREAM_MAX_BYTES", "2e9")
    assert Reader("x").max_bytes == 2_000_000_000


@pytest.mark.parametrize("given", ["abc", "inf", "nan"])
def test_a_wrong_budget_is_one_sentence(monkeypatch, given):
    monkeypatch.setenv("SLIPSTREAM_MAX_BYTES", given)
    with pytest.raises(SaveError, match=f"number of bytes, such as 2e9, not '{given}'"):
        Reader("file")
