"""The one container: sections come back, every byte is under a checksum, hostile indexes are refused in one
sentence."""

import json
import os

import numpy as np
import pytest
import torch
from helpers.forged import forge
from safetensors.torch import load, load_file

from slipstream.storage.errors import DamagedFileError, SaveError, TooLargeError
from slipstream.storage.files import atomic_file
from slipstream.storage.tensor_file import (
    HASH,
    Deferred,
    Entry,
    MemoryFile,
    Reader,
    TensorFile,
    TensorFileWriter,
    checksum_of,
    read_identity,
)
from slipstream.storage.tree import load_state, store_state

STATE = {
    "numbers": np.arange(6, dtype=np.int16).reshape(2, 3),
    "tensor": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "empty": np.empty((0, 3), np.float32),
    "scalar": np.array(3.5),
    "text": "ä",
    "nested": [{"a": (1, None)}],
}


def write(path):
    with atomic_file(path) as file:
        writer = TensorFileWriter(file, "test")
        first = writer.add(b"hello")
        second = writer.add(b"ab", np.arange(40, dtype=np.uint8), checksum=checksum_of(b"ab", bytes(range(40))))
        empty = writer.add()
        later = writer.add(Deferred(3, lambda: b"abc"), name="later")
        size = writer.finish({"pieces": [first, second, empty, later], "state": store_state(writer, STATE)})
    assert size == path.stat().st_size
    return path


def same_state(loaded):
    assert list(loaded) == list(STATE) and loaded["text"] == "ä" and loaded["nested"] == [{"a": (1, None)}]
    assert torch.equal(loaded["tensor"], STATE["tensor"])
    for name in ("numbers", "empty", "scalar"):
        assert loaded[name].dtype == STATE[name].dtype and loaded[name].shape == STATE[name].shape
        assert np.array_equal(loaded[name], STATE[name])


def test_pieces_and_state_come_back(tmp_path):
    path = write(tmp_path / "c.slip")
    with TensorFile.open(path, "test") as container:
        assert container.section(0).tobytes() == b"hello"
        assert container.view(1).tobytes() == b"ab" + bytes(range(40)) and container.section(2).size == 0
        assert container.view(1, 3).tobytes() == b"ab\0"
        assert container.section(container.head["pieces"][3]).tobytes() == b"abc"
        assert not list(container.damage())
        same_state(load_state(container, container.head["state"]))
        assert read_identity(path) == container.identity != read_identity(write(tmp_path / "d.slip"))[::-1]


def test_entries_are_aligned_and_names_unique(tmp_path):
    file = MemoryFile()
    writer = TensorFileWriter(file, "test")
    names = ["a", "a", "a.1", "\ud800", "", "__metadata__", HASH, "padding", "x" * 5000]
    for number, name in enumerate(names):
        writer.add_array(np.full(1 + number, number, np.int8), name)
        writer.add_array(np.full(1, number, np.float64), name)
    writer.add_array(torch.ones(3, dtype=torch.complex64), "complex")
    writer.finish(None)
    data = file.getvalue()
    start = 8 + int.from_bytes(data[:8], "little")
    wide = {name: x for name, x in json.loads(data[8:start]).items() if x.get("dtype") == "F64"}
    assert len(wide) == len(names) and not start % 64 and not any(x["data_offsets"][0] % 8 for x in wide.values())
    found = load(data)
    assert sorted(float(found[name]) for name in wide) == list(range(9)) and found["complex"].numel() == 24
    assert found["a"].tolist() == [0] and found["a.1"].tolist() == [1, 1]


def test_a_streamed_file_keeps_room_for_its_header(tmp_path):
    path = tmp_path / "c.slip"
    with atomic_file(path) as file:
        writer = TensorFileWriter(file, "test")
        writer.reserve({"x": 1}, [Entry("stream", "U8", [10**9], 10**9)], 300)
        for number in range(300):
            writer.add(bytes([number % 251]) * number, name="stream", codec=number % 256)
        size = writer.finish()
    assert size == os.path.getsize(path)
    with TensorFile.open(path, "test") as container:
        assert container.codecs == [number % 256 for number in range(300)] and container.head == {"x": 1}
        assert [container.section(n).size for n in range(300)] == list(range(300))
    assert load_file(path)["stream"].numel() == sum(range(300))


def test_names_that_do_not_fit_a_header_are_refused():
    with pytest.raises(SaveError, match="limit of safetensors"):
        TensorFileWriter(MemoryFile(), "test").finish("x" * 100_000_000)


def test_another_kind_is_refused_by_name(tmp_path):
    with pytest.raises(DamagedFileError, match=r"c\.slip: this file is of the kind 'test', not 'ckpt'"):
        TensorFile.open(write(tmp_path / "c.slip"), "ckpt")


def test_a_file_of_another_version_says_so(tmp_path):
    path = tmp_path / "c.slip"
    for version, word in ((3, "an older version .* make it again"), (99, "a newer version .* update")):
        write(path)
        forge(path, lambda x, version=version: x.description.__setitem__("version", version))
        with pytest.raises(DamagedFileError, match=word):
            TensorFile.open(path, "test")


def test_every_flipped_byte_and_every_cut_is_found(tmp_path):
    path = write(tmp_path / "c.slip")
    good = path.read_bytes()
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1 << (at % 8)
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match="c.slip"), TensorFile.open(path, "test") as container:
            for _, text in container.damage():
                raise DamagedFileError(text)
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(DamagedFileError, match="c.slip"):
            TensorFile.open(path, "test")


HOSTILE = {
    "deep": lambda x: b'{"head":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "pieces that overflow": lambda x: x.description.__setitem__("pieces", "00ffffffffffff00000000" * (1 << 16)),
    "pieces that do not fill the file": lambda x: x.description.__setitem__("pieces", "00" * 11),
    "a shape that does not fit": lambda x: x.head["state"]["arrays"][0].__setitem__(2, [2, 4]),
    "a shape that overflows": lambda x: x.head["state"]["arrays"][0].__setitem__(2, [1 << 40, 1 << 40, 0]),
    "a torch dtype that is a function": lambda x: x.head["state"]["arrays"][1].__setitem__(1, "torch.load"),
    "a tree of another kind": lambda x: x.head["state"].__setitem__("tree", {"$exec": "1"}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_forged_index_is_refused_in_one_sentence(what, tmp_path):
    path = write(tmp_path / "c.slip")
    forge(path, HOSTILE[what])
    with pytest.raises(DamagedFileError, match=r"c\.slip: ") as info, TensorFile.open(path, "test") as container:
        load_state(container, container.head["state"])
    assert "\n" not in str(info.value) and len(str(info.value)) < 400


def test_reading_is_bounded_by_the_budget(tmp_path):
    path = tmp_path / "c.slip"
    with atomic_file(path) as file:
        writer = TensorFileWriter(file, "test")
        writer.finish(store_state(writer, {"a": np.zeros(1 << 20, np.uint8), "b": np.zeros(1 << 20, np.uint8)}))
    with TensorFile.open(path, "test", reader=Reader(path, max_bytes=3 << 20)) as container:
        assert load_state(container, container.head)["b"].size == 1 << 20
    with (
        pytest.raises(TooLargeError, match="SLIPSTREAM_MAX_BYTES"),
        TensorFile.open(path, "test", reader=Reader(path, max_bytes=3 << 19)) as container,
    ):
        load_state(container, container.head)


def test_what_cannot_be_stored_is_refused(tmp_path):
    writer = TensorFileWriter(MemoryFile(), "test")
    with pytest.raises(TypeError, match="plain numbers"):
        store_state(writer, {"a": np.array([object()])})
    with pytest.raises(TypeError, match=r"state\['a'\] is a builtins.object"):
        store_state(writer, {"a": object()})
    with pytest.raises(TypeError, match="keys"):
        store_state(writer, {(i, i): 0 for i in range(5000)})


def test_a_view_of_a_section_outlives_the_container(tmp_path):
    container = TensorFile.open(write(tmp_path / "c.slip"), "test")
    view = container.view(0)
    container.close()
    os.unlink(tmp_path / "c.slip")
    assert view.tobytes() == b"hello"
