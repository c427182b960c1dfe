"""The one container: sections come back, every byte is under a checksum, hostile indexes are refused in one
sentence."""

import json
import os
import struct
import zlib

import numpy as np
import pytest
import torch

from slipstream.storage.container import HEADER, Container, ContainerWriter, MemoryFile, read_header
from slipstream.storage.errors import DamagedFileError, SaveError, TooLargeError
from slipstream.storage.files import atomic_file
from slipstream.storage.reader import Reader
from slipstream.storage.serializer import load_state, store_state

STATE = {
    "numbers": np.arange(6, dtype=np.int16).reshape(2, 3),
    "tensor": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "empty": np.empty((0, 3), np.float32),
    "scalar": np.array(3.5),
    "text": "ä",
    "nested": [{"a": (1, None)}],
}


def write(path, flags=0):
    with atomic_file(path) as file:
        writer = ContainerWriter(file, "test", flags)
        first = writer.add(b"hello")
        second = writer.add(b"ab", np.arange(40, dtype=np.uint8))
        empty = writer.add()
        size = writer.finish({"sections": [first, second, empty], "state": store_state(writer, STATE)})
    assert size == path.stat().st_size
    return path


def same_state(loaded):
    assert list(loaded) == list(STATE) and loaded["text"] == "ä" and loaded["nested"] == [{"a": (1, None)}]
    assert torch.equal(loaded["tensor"], STATE["tensor"])
    for name in ("numbers", "empty", "scalar"):
        assert loaded[name].dtype == STATE[name].dtype and loaded[name].shape == STATE[name].shape
        assert np.array_equal(loaded[name], STATE[name])


def test_sections_and_state_come_back(tmp_path):
    path = write(tmp_path / "c.slip", flags=5)
    with Container.open(path, "test") as container:
        assert container.section(0).tobytes() == b"hello" and container.flags == 5
        assert container.view(1).tobytes() == b"ab" + bytes(range(40)) and container.section(2).size == 0
        assert not (container.offsets % 64).any() and container.head["sections"] == [0, 1, 2]
        assert not list(container.damage())
        same_state(load_state(container, container.head["state"]))
        assert read_header(path) == ("test", 5, container.identity)


def test_a_section_is_read_into_memory(tmp_path):
    with Container.open(write(tmp_path / "c.slip"), "test") as container:
        out = memoryview(bytearray(64))
        container.read_into(0, out)
        assert bytes(out[:5]) == b"hello" and not any(out[5:])


def test_a_container_in_memory(tmp_path):
    file = MemoryFile()
    writer = ContainerWriter(file, "test")
    size = writer.finish({"state": store_state(writer, STATE)})
    data = file.join()
    assert data.nbytes == size == file.position
    for form in (data, data.tobytes()):
        container = Container.from_bytes(form, "test", "the state")
        same_state(load_state(container, container.head["state"]))
    with pytest.raises(DamagedFileError, match="the state: .*cut short"):
        Container.from_bytes(data[:50], "test", "the state")


def test_another_kind_is_refused_by_name(tmp_path):
    with pytest.raises(DamagedFileError, match=r"c\.slip: this file holds something unknown, not a checkpoint"):
        Container.open(write(tmp_path / "c.slip"), "ckpt")


def test_every_flipped_byte_and_every_cut_is_found(tmp_path):
    path = write(tmp_path / "c.slip")
    good = path.read_bytes()
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1 << (at % 8)
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match="c.slip"), Container.open(path, "test") as container:
            for _, text in container.damage():
                raise DamagedFileError(text)
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(DamagedFileError, match="c.slip"):
            Container.open(path, "test")


def forge(path, change):
    """Rewrite the index as `change` says, with checksums that fit."""
    data = path.read_bytes()
    head = list(HEADER.unpack(data[: HEADER.size]))
    index = json.loads(data[head[5] :])
    changed = change(index)
    body = changed if isinstance(changed, bytes) else json.dumps(index).encode()
    head[6], head[7] = len(body), zlib.crc32(body)
    raw = HEADER.pack(*head)[:-4]
    path.write_bytes(raw + struct.pack("<I", zlib.crc32(raw)) + data[HEADER.size : head[5]] + body)


HOSTILE = {
    "no index": lambda x: b"[]",
    "no json": lambda x: b"\xff\xfe",
    "deep": lambda x: b'{"head":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "negative size": lambda x: x["sizes"].__setitem__(0, -1),
    "huge size": lambda x: x["sizes"].__setitem__(0, 1 << 63),
    "float size": lambda x: x["sizes"].__setitem__(0, 5.0),
    "sizes that overflow": lambda x: x.__setitem__("sizes", [1 << 40] * (1 << 17)),
    "too many sections": lambda x: x["sizes"].extend([0] * 50),
    "a checksum too few": lambda x: x["crc32"].pop(),
    "sections that do not fill the file": lambda x: (x["sizes"].pop(), x["crc32"].pop()),
    "an array of objects": lambda x: x["head"]["state"]["arrays"][0].__setitem__(1, "O"),
    "an array with fields": lambda x: x["head"]["state"]["arrays"][0].__setitem__(1, "f4,f4"),
    "an array of nothing known": lambda x: x["head"]["state"]["arrays"][0].__setitem__(1, "(("),
    "a shape that does not fit": lambda x: x["head"]["state"]["arrays"][0].__setitem__(2, [2, 4]),
    "a shape that overflows": lambda x: x["head"]["state"]["arrays"][0].__setitem__(2, [1 << 40, 1 << 40, 0]),
    "a shape of 1,000 dimensions": lambda x: x["head"]["state"]["arrays"][0].__setitem__(2, [1] * 1000),
    "a section that is not there": lambda x: x["head"]["state"]["arrays"][0].__setitem__(0, 99),
    "a section called true": lambda x: x["head"]["state"]["arrays"][0].__setitem__(0, True),
    "arrays missing": lambda x: x["head"]["state"].pop("arrays"),
    "arrays that are a number": lambda x: x["head"]["state"].__setitem__("arrays", 7),
    "a torch dtype that is a function": lambda x: x["head"]["state"]["arrays"][1].__setitem__(1, "torch.load"),
    "a tree of another kind": lambda x: x["head"]["state"].__setitem__("tree", ["exec", "1"]),
    "a device with a huge number": lambda x: x["head"]["state"].__setitem__("tree", ["device", "x" * 40]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_forged_index_is_refused_in_one_sentence(what, tmp_path):
    path = write(tmp_path / "c.slip")
    forge(path, HOSTILE[what])
    with pytest.raises(DamagedFileError, match=r"c\.slip: ") as info, Container.open(path, "test") as container:
        load_state(container, container.head["state"])
    assert "\n" not in str(info.value) and len(str(info.value)) < 400


@pytest.mark.parametrize("step", [1, (1 << 61) - 1])
def test_a_dict_with_many_chosen_integer_keys_is_refused(step, tmp_path):
    path = write(tmp_path / "c.slip")
    pairs = [[["int", hex((i + 1 << 25) * step)], i] for i in range(60_000)]
    forge(path, lambda x: x["head"]["state"].__setitem__("tree", ["dict", pairs]))
    with pytest.raises(DamagedFileError, match="keys"), Container.open(path, "test") as container:
        load_state(container, container.head["state"])


def test_reading_is_bounded_by_the_budget(tmp_path):
    path = tmp_path / "c.slip"
    with atomic_file(path) as file:
        writer = ContainerWriter(file, "test")
        writer.finish(store_state(writer, {"a": np.zeros(1 << 20, np.uint8), "b": np.zeros(1 << 20, np.uint8)}))
    with Container.open(path, "test", reader=Reader(path, max_bytes=3 << 20)) as container:
        assert load_state(container, container.head)["b"].size == 1 << 20
    with (
        pytest.raises(TooLargeError, match="SLIPSTREAM_MAX_BYTES"),
        Container.open(path, "test", reader=Reader(path, max_bytes=3 << 19)) as container,
    ):
        load_state(container, container.head)


def test_what_cannot_be_stored_is_refused(tmp_path):
    writer = ContainerWriter(MemoryFile(), "test")
    with pytest.raises(TypeError, match="numbers"):
        store_state(writer, {"a": np.array([object()])})
    with pytest.raises(TypeError, match=r"state\['a'\] is a builtins.object"):
        store_state(writer, {"a": object()})
    with pytest.raises(SaveError, match="keys"):
        store_state(writer, {(i, i): 0 for i in range(5000)})


def test_a_view_of_a_section_outlives_the_container(tmp_path):
    container = Container.open(write(tmp_path / "c.slip"), "test")
    view = container.view(0)
    container.close()
    os.unlink(tmp_path / "c.slip")
    assert view.tobytes() == b"hello"
