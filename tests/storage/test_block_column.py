"""A column against a plain list of frames: appends, evictions, flushes, block bytes."""

import numpy as np
import pytest
from block_columns import column, frames_of, read
from helpers.states import same
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.storage import blocks as blocks_module
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec.registry import HEADER_BYTES, CodecError, read_header
from slipstream.storage.files import atomic_file
from slipstream.storage.tensor_file import TensorFile, TensorFileWriter

ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 90)),
    st.tuples(st.just("evict"), st.floats(0, 1)),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("read"), st.integers(1, 50)),
    st.tuples(st.just("move"), st.none()),
)


@given(
    actions=st.lists(ACTIONS, max_size=25),
    codec=st.sampled_from(["auto", "raw", "lz4", "mask", "palette", "delta+mask+lz4"]),
    group=st.sampled_from([1, 3, 8]),
    seal=st.booleans(),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=150, deadline=None)
def test_any_sequence_of_actions_keeps_exactly_the_rows(actions, codec, group, seal, seed):
    rng = np.random.default_rng(seed)
    kind = {"codec": codec, "group": group, "block_rows": 24, "seal": seal}
    held, model, head = column(**kind), frames_of(rng, 0), 0
    for action, value in actions:
        if action == "append":
            new = frames_of(rng, value)
            assert held.append(new) == len(model)
            model = np.concatenate([model, new])
        elif action == "evict":
            head = max(head, int(value * len(model)))
            held.evict(head)
        elif action == "flush":
            held.flush()
            stats = held.stats()
            assert stats["backlog_bytes"] == stats["open_rows"] == 0
        elif action == "move":  # the same bytes in another column
            held.flush()
            other = column(**kind)
            for block in held.blocks(head):
                other.add_block(block.read())
            if len(model) == head:
                continue
            other.evict(head)
            held.close()
            held = other
        elif head < len(model):
            rows = rng.integers(head, len(model), value)
            assert same(read(held, rows), model[rows])
        assert (held.head, held.tail, len(held)) == (head, len(model), len(model) - head)
    if head < len(model):
        assert same(read(held, np.arange(head, len(model))), model[head:])
        for outside in (head - 1, len(model)):
            with pytest.raises(IndexError, match=f"row {outside} "):
                read(held, [head, outside])
    held.close()


def test_what_does_not_fit_is_refused_with_the_reason():
    with pytest.raises(TypeError, match="objects"):
        BlockColumn((2,), object)
    with pytest.raises(ValueError, match="hold nothing"):
        BlockColumn((0,), "float32")
    with pytest.raises(ValueError, match="multiple of group"):
        BlockColumn((2,), "float32", group=3, block_rows=10)
    with column((2,), "float32") as held:
        with pytest.raises(ValueError, match="frames must be float32"):
            held.append(np.zeros((3, 2)))
        with pytest.raises(ValueError, match="frames must be float32"):
            held.append(np.zeros((3, 3), np.float32))
        held.append(np.zeros((3, 2), np.float32))
        with pytest.raises(ValueError, match="out must be contiguous float32"):
            held.gather(np.array([0]), np.empty((1, 2), np.float64))
        with pytest.raises(IndexError, match="cannot evict up to row 4"):
            held.evict(4)
    with pytest.raises(RuntimeError, match="closed"):
        held.append(np.zeros((1, 2), np.float32))
    with pytest.raises(RuntimeError, match="closed"):
        held.gather(np.array([0]), np.empty((1, 2), np.float32))


def test_row_numbers_pass_two_to_the_32():
    made = column((4,), "int64", block_rows=64, seal=False)
    first = (2**32 + 5) // 64 * 64
    seed = column((4,), "int64", block_rows=64, seal=False)
    frames = np.arange(64 * 4).reshape(64, 4)
    seed.append(frames)
    moved = seed.blocks()[0].read().copy()
    header = read_header(moved)
    import dataclasses

    from slipstream.storage.codec.registry import write_header

    write_header(moved, dataclasses.replace(header, first_row=first))
    made.add_block(moved)
    assert made.append(frames) == first + 64
    assert same(read(made, [first + 3, first + 70]), frames[[3, 6]])


def test_eviction_gives_memory_back():
    rng = np.random.default_rng(1)
    with column((1000,), "float32", codec="raw", block_rows=16, seal=False) as held:
        sizes = []
        for _ in range(60):
            held.append(rng.normal(size=(64, 1000)).astype("float32"))
            held.evict(max(0, held.tail - 1024))
            sizes.append(held.nbytes)
            assert held.nbytes >= 4000 * len(held)
        assert max(sizes[20:]) < 1.35 * 4000 * 1024
        held.evict(held.tail)
        assert held.nbytes < 0.3 * 4000 * 1024


@pytest.mark.parametrize("group", [1, 8])
def test_auto_takes_the_codec_that_suits_the_data(group):
    rng = np.random.default_rng(3)
    noise = rng.integers(0, 2**32, (512, 64), dtype=np.uint32).view(np.float32)
    sparse = np.where(rng.random((512, 144)) < 0.2, rng.random((512, 144)), 0).astype(np.float32)
    grid = np.repeat(np.repeat(rng.choice(np.array([0, 0.5, 1.0], np.float32), (512, 8, 8)), 8, 1), 8, 2)
    for frames, expected in ((noise, "raw"), (sparse, "mask"), (grid, "lz4")):
        with column(frames.shape[1:], frames.dtype, group=group) as held:
            held.append(frames)
            held.flush()
            assert expected in held.stats()["codec"], (expected, held.stats())
            assert same(read(held, np.arange(512)), frames)
            assert held.stats()["ratio"] < 1.05


def test_the_codec_is_chosen_again_when_the_data_change():
    rng = np.random.default_rng(4)
    with column((256,), "float32", block_rows=32, seal=False) as held:
        sparse = np.where(rng.random((640, 256)) < 0.1, rng.random((640, 256)), 0).astype(np.float32)
        noise = rng.integers(0, 2**32, (640, 256), dtype=np.uint32).view(np.float32)
        held.append(sparse)
        before = held.stats()["codec"]
        held.append(noise)
        assert held.stats()["codec"] == "raw" != before
        held.append(sparse)  # nothing says that raw is too much now: it is looked at again after a while
        for _ in range(15):
            held.append(sparse)
        assert held.stats()["codec"] == before
        everything = np.concatenate([sparse, noise, *[sparse] * 16])
        assert same(read(held, np.arange(len(everything))), everything)


@pytest.fixture
def nobody_seals(monkeypatch):
    monkeypatch.setattr(blocks_module, "BACKLOG_BYTES", 0)
    lazy = type("Lazy", (), {"submit": lambda self, *task: None})()
    monkeypatch.setattr(blocks_module, "SEALER", lazy)


@pytest.mark.usefixtures("nobody_seals")
def test_blocks_are_coded_quickly_when_sealing_falls_behind():
    frames = np.repeat(np.arange(96, dtype=np.uint8)[:, None], 500, 1)
    with column((500,), "uint8", codec="lz4", block_rows=8) as held:
        held.append(frames)
        stats = held.stats()
        assert stats["quick_rows"] == 80 and stats["sealed_rows"] == 0 and stats["backlog_bytes"] == 96 * 500
        assert same(read(held, np.arange(96)), frames)
        held.flush()
        stats = held.stats()
        assert stats["sealed_rows"] == 96 and stats["quick_rows"] == stats["backlog_bytes"] == 0
        assert same(read(held, np.arange(96)), frames)


@pytest.mark.usefixtures("nobody_seals")
def test_a_block_that_leaves_while_it_waits_to_be_sealed_is_let_go(monkeypatch):
    held = column((500,), "uint8", codec="lz4", block_rows=8)
    held.append(np.zeros((96, 500), np.uint8))
    assert held.stats()["quick_rows"] == 80
    decoded = held._decoded

    def evicted_first(*block):  # between taking block 2 from the queue and reading it
        held.evict(90)
        return decoded(*block)

    assert held.seal_next() and held.seal_next()  # the two raw ones
    monkeypatch.setattr(held, "_decoded", evicted_first)
    assert held.seal_next()
    held.flush()
    assert same(read(held, np.arange(90, 96)), np.zeros((6, 500), np.uint8))


def test_an_error_of_the_background_reaches_the_caller_and_loses_nothing(monkeypatch):
    frames = np.arange(64, dtype=np.int32).reshape(64, 1)
    held = column((1,), "int32", codec="lz4", block_rows=16)

    def fails(*args, **kwargs):
        raise MemoryError("no memory to code in")

    monkeypatch.setattr(held.coder, "encode", fails)
    with pytest.raises(RuntimeError, match="could not be sealed"):
        held.append(frames)
        held.flush()
    monkeypatch.undo()
    assert same(read(held, np.arange(64)), frames)


def test_damage_is_reported_with_block_and_rows_and_the_rest_still_reads():
    frames = np.random.default_rng(5).normal(size=(64, 30)).astype(np.float32)
    with column((30,), "float32", codec="lz4", group=4, block_rows=32) as held:
        held.append(frames)
        held.flush()
        block = held.view().blocks[1].data
        block[HEADER_BYTES + 8 * 8 + 4 * 120 * 2 + 17] ^= (
            1  # in the third group of the second block, kept raw: it is noise
        )
        assert same(read(held, np.r_[0:40, 44:64]), frames[np.r_[0:40, 44:64]])
        with pytest.raises(CodecError, match=r"rows 40 to 43 \(block 1\) are damaged"):
            read(held, [1, 42])


def test_a_block_from_elsewhere_must_fit():
    with (
        column((4,), "float32", block_rows=8, seal=False) as held,
        column((4,), "float32", block_rows=8, seal=False) as other,
    ):
        held.append(np.ones((24, 4), np.float32))
        made = [block.read() for block in held.blocks()]
        other.add_block(made[1])
        assert (other.head, other.tail) == (8, 16)
        with pytest.raises(ValueError, match="does not continue at row 16"):
            other.add_block(made[1])
        broken = made[2].copy()
        broken[70] ^= 1
        with pytest.raises(CodecError):
            other.add_block(broken)
        other.add_block(made[2].tobytes())
        assert same(read(other, [8, 23]), np.ones((2, 4), np.float32))
    with column((5,), "float32", block_rows=8) as third, pytest.raises(ValueError, match="does not fit"):
        third.add_block(made[0])


def move_to_file(held, path):
    blocks = held.blocks()
    with atomic_file(path) as file:
        writer = TensorFileWriter(file, "test")
        for block in blocks:
            writer.add(block.read())
        writer.finish(None)
    file = TensorFile.open(path, "test")
    for number, block in enumerate(blocks):
        held.relocate(block.header.first_row, file, number)
    return [block.read().tobytes() for block in blocks]


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("codec", ["raw", "mask", "lz4", "palette+lz4"])
def test_blocks_can_be_read_from_a_file(tmp_path, group, codec):
    frames = np.random.default_rng(6).integers(0, 9, (96, 50)).astype(np.uint16)
    with column((50,), "uint16", codec=codec, group=group, block_rows=32) as held:
        held.append(frames)
        held.flush()
        before = held.nbytes
        blocks = move_to_file(held, tmp_path / "blocks.slip")
        assert held.stats()["relocated_bytes"] == sum(map(len, blocks)) and held.nbytes < before
        assert same(read(held, np.arange(96)), frames) and same(read(held, [95, 3, 3, 40]), frames[[95, 3, 3, 40]])
        assert [block.read().tobytes() for block in held.blocks()] == blocks
        held.evict(40)
        assert same(read(held, np.arange(40, 96)), frames[40:])
        held.append(frames)
        assert same(read(held, np.arange(96, 192)), frames)


def test_blocks_of_a_file_that_shrinks_or_changes_are_refused(tmp_path):
    frames = np.random.default_rng(6).integers(0, 9, (96, 50)).astype(np.uint8)
    with column((50,), "uint8", group=4, block_rows=32) as held:
        held.append(frames)
        held.flush()
        move_to_file(held, tmp_path / "blocks.slip")
        data = bytearray((tmp_path / "blocks.slip").read_bytes())
        with (tmp_path / "blocks.slip").open("r+b", buffering=0) as file:
            file.truncate(2000)
            with pytest.raises(CodecError, match=r"rows 88 to 91 \(block 2\) cannot be read: .*blocks.slip is shorter"):
                read(held, [90])
            with pytest.raises(ValueError, match="shorter|cut"):
                held.blocks()[-1].read()
            file.seek(0)
            file.write(bytes(len(data)))
            with pytest.raises(CodecError, match="rows 88 to 91 .* are damaged"):
                read(held, [90])
