"""Mutations of our formats that keep the outer checks intact: checksums and lengths are repaired afterwards.

Every mutation is a function of the input and a `random.Random`, so a seed and a number give the same input again.
"""

from __future__ import annotations

import copy
import io
import json
import pickletools
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import lz4.frame
import numpy as np
from helpers.forged import put_together, take_apart, with_hash, with_header

from slipstream.storage.codec import kernels, registry
from slipstream.storage.tensor_file import HASH_BYTES

Mutation = Callable[[bytes, random.Random], bytes]

INTEGERS = [
    *(0, 1, 2, 3, 7, 8, 63, 64, 65, 127, 128, 255, 256, 1000, 4096, 65535, 65536, 1 << 20, (1 << 31) - 1, 1 << 31),
    *((1 << 32) - 1, 1 << 32, 1 << 40, 1 << 53, (1 << 61) - 1, 1 << 61, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30),
]
VALUES = [
    *INTEGERS, *(-n for n in INTEGERS[1:]), 0.5, 1.5, 1e300, -0.0, True, False, None,
    *("", "x", "a" * 5000, "\x1b[31m", "[red]x[/red]", "\ud800", "../x", "/etc/passwd", "a/b", "a\0b", "cuda:99", "meta"),
    *("<f4", "|O", "<M8[ns]", "float32", "bfloat16", "complex64", "quint8", "int8", "bf16", "zeros"),
    *([], {}, [0], [1, 2, 3], [[]], [[[[[]]]]], {"a": 1}, {"$tensor": 0}, {"$tensor": 1}, {"$learning": 0}, {"$parameter": [0, 1]}, {"$array": 0}),
    *({"$dict": [[{"$tuple": [1]}, 1]]}, {"x": {"$tensor": 0}}, [1, [2]], {"$counter": [[["a", []]], None]}, {"$namedtuple": [[1], "x"]}),
    *({"$tensordict": [[["a", {"$tensor": 0}]], [3]]}, {"$odict": [[], None]}, {"$odict": [[["a", 1]], {"$tensor": 0}]}),
    *({"$numpy": ["<U3", "00"]}, {"$numpy": ["<f8", "00" * 8]}, {"$size": [1 << 63]}, {"$size": [-1]}, {"$int": "-0x1"}, {"$int": "0x" + "f" * 9000}),
    *({"$float": "7ff0000000000000"}, {"$bytes": "00"}, {"$device": "cuda:999999999"}, {"$dtype": "float8_e4m3fn"}, {"$complex": "00"}),
]  # fmt: skip


def places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in nested JSON."""
    found, pending = [], [tree]
    while pending:
        node = pending.pop()
        for key in node if isinstance(node, dict) else range(len(node)):
            found.append((node, key))
            if isinstance(node[key], (dict, list)):
                pending.append(node[key])
    return found


def change_json(tree: Any, rng: random.Random) -> None:
    """Change one to five values of nested JSON in place."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        found = places(tree)
        if not found:
            return
        node, key = rng.choice(found)
        old, dice = node[key], rng.random()
        if dice < 0.35:
            node[key] = copy.deepcopy(rng.choice(VALUES))
        elif dice < 0.65 and type(old) is int:
            node[key] = rng.choice(
                (old + 1, old - 1, old * 2, -old, old // 2, old + 64, old ^ (1 << rng.randrange(64)))
            )
        elif dice < 0.65 and isinstance(old, list) and old:
            node[key] = rng.choice((old[:-1], old[1:], old + old, old[::-1], [*old, old[0]]))
        elif dice < 0.75:
            del node[key]
        elif dice < 0.85:
            other, where = rng.choice(found)
            if isinstance(other, dict) or where < len(other):
                node[key] = copy.deepcopy(other[where]) if where in other or isinstance(other, list) else old
        elif dice < 0.95:
            node[key] = [copy.deepcopy(old) for _ in range(rng.choice((1, 2, 50)))]
        else:
            for _ in range(rng.choice((2, 200))):
                node[key] = [node[key]]


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, cut, repeat, insert or shorten without any repair."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not out:
            return b"\0"
        at = rng.randrange(len(out)) if rng.random() < 0.7 else rng.randrange(min(len(out), 128))
        dice = rng.random()
        if dice < 0.35:
            out[at] ^= 1 << rng.randrange(8)
        elif dice < 0.55:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif dice < 0.75:
            width = rng.choice((2, 4, 8))
            number = rng.choice(INTEGERS) * rng.choice((1, -1)) & ((1 << 8 * width) - 1)
            out[at : at + width] = number.to_bytes(width, "little")
        elif dice < 0.83:
            del out[at : at + rng.choice((1, 8, 64, 1000))]
        elif dice < 0.91:
            piece = out[at : at + rng.choice((1, 8, 64, 1000))]
            where = rng.randrange(len(out) + 1)
            out[where:where] = piece
        elif dice < 0.96:
            del out[at:]
        else:
            out += bytes(rng.choice((1, 8, 64)))
    return bytes(out)


# --- files of ours


def container(data: bytes, rng: random.Random) -> bytes:
    """Mutate a file of ours somewhere, most often behind checksums that fit."""
    dice = rng.random()
    if dice < 0.1:
        return change_bytes(data, rng)
    if dice < 0.2:
        return _header(data, rng)
    parts = take_apart(data)
    if dice < 0.55:
        change_json(parts.description["head"], rng)
    elif dice < 0.6:
        change_json(parts.description, rng)
    elif parts.pieces:
        sections = [piece for _, piece in parts.pieces]
        for _ in range(rng.choice((1, 1, 3))):
            change_section(sections, rng)
        codecs = [codec for codec, _ in parts.pieces]
        if rng.random() < 0.2:
            codecs[rng.randrange(len(codecs))] = rng.randrange(256) if rng.random() < 0.5 else rng.randrange(16)
        parts.pieces = list(zip(codecs, sections, strict=True))
        if dice > 0.97:
            change_json(parts.description["head"], rng)
    return put_together(parts)


def _header(data: bytes, rng: random.Random) -> bytes:
    """Mutate the length, the entries, the description or the table, with a hash that fits."""
    start = 8 + int.from_bytes(data[:8], "little")
    text, rest = data[8:start], data[start:-HASH_BYTES]
    dice = rng.random()
    if dice < 0.2:
        return with_hash(change_bytes(text, rng), rest)
    if dice < 0.3:
        length = rng.choice((*INTEGERS, start - 9, start - 7, start + 56)) & ((1 << 64) - 1)
        return length.to_bytes(8, "little") + text + data[start:]
    header = json.loads(text)
    if dice < 0.6:
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        change_json(entries, rng)
        return with_header(header["__metadata__"]["slipstream"], entries, rest)
    description = json.loads(header["__metadata__"]["slipstream"])
    if dice < 0.9:
        table = bytes.fromhex(description["pieces"])
        description["pieces"] = rng.choice((change_numbers, change_bytes))(table, rng).hex()
    else:
        change_json(description, rng)
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    return with_header(json.dumps(description), entries, rest)


def change_section(sections: list[bytes], rng: random.Random) -> None:
    """Change, swap, repeat, drop or resize a section in place."""
    at, dice = rng.randrange(len(sections)), rng.random()
    if dice < 0.8:
        is_block = sections[at][:4] == struct.pack("<I", registry.MAGIC)
        sections[at] = (block if is_block and rng.random() < 0.85 else change_numbers)(sections[at], rng)
    elif dice < 0.86:
        other = rng.randrange(len(sections))
        sections[at], sections[other] = sections[other], sections[at]
    elif dice < 0.92:
        sections[at] = rng.choice(sections)
    elif dice < 0.96:
        sections[at] = sections[at][: rng.randrange(len(sections[at]) + 1)] + bytes(rng.choice((0, 0, 1, 64)))
    else:
        sections[at] = change_bytes(sections[at], rng)


def change_numbers(data: bytes, rng: random.Random) -> bytes:
    """Change aligned numbers of 1, 4 or 8 bytes; the length stays."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 3))):
        width = rng.choice((1, 4, 8, 8))
        if len(out) < width:
            return bytes(out)
        at = rng.randrange(len(out) // width) * width
        old = int.from_bytes(out[at : at + width], "little")
        new = rng.choice(
            (
                old + 1,
                old - 1,
                old * 2,
                rng.choice(INTEGERS),
                -rng.choice(INTEGERS),
                old ^ (1 << rng.randrange(8 * width)),
            )
        )
        out[at : at + width] = (new & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(out)


# --- blocks


def block(data: bytes, rng: random.Random) -> bytes:
    """Mutate a block of frames: header, table or groups, with its checksums right most of the time."""
    out = np.frombuffer(data, np.uint8).copy()
    if len(out) < registry.HEADER_BYTES or rng.random() < 0.05:
        return change_bytes(data, rng)
    fields = list(registry.HEADER.unpack(data[: registry.HEADER.size]))
    h = registry.header_of(out)
    end = min(h.payload, len(out)) if h.group else len(out)
    dice = rng.random()
    if dice < 0.3:
        which = rng.randrange(1, 12)
        limit = {1: 8, 2: 8, 3: 8, 4: 8, 5: 63, 10: 64}.get(which, 32)
        old = fields[which]
        fields[which] = rng.choice((old + 1, old - 1, old * 2, rng.choice(INTEGERS), rng.randrange(256))) & (
            (1 << limit) - 1
        )
        out[: registry.HEADER.size] = np.frombuffer(registry.HEADER.pack(*fields), np.uint8)
    elif dice < 0.5 and end > registry.HEADER_BYTES:
        table = np.frombuffer(change_numbers(out[registry.HEADER_BYTES : end].tobytes(), rng), np.uint8)
        out[registry.HEADER_BYTES : end] = table
    else:
        for _ in range(rng.choice((1, 2, 8))):
            if len(out) > end:
                at = rng.randrange(end, len(out))
                out[at] = rng.choice((0, 1, 0x0F, 0x7F, 0x80, 0xF0, 0xFF, rng.randrange(256)))
    if rng.random() < 0.95:
        repair_block(out)
    if rng.random() < 0.05:
        out = out[: rng.randrange(len(out))]
    return out.tobytes()


def repair_block(out: np.ndarray) -> None:
    """Set the checksums of the groups, as far as the table can be followed, and of header and table."""
    h = registry.header_of(out)
    if not h.group or not 0 < h.groups < 10_000 or h.payload > len(out):
        return
    table = out[registry.HEADER_BYTES : h.payload].view("<u4").reshape(-1, 2)
    starts = (table[:, 0] & (registry.RAW_GROUP - 1)).astype(np.int64)
    stops = np.append(starts[1:], h.coded)
    for g, (a, b) in enumerate(zip(starts, stops, strict=True)):
        if 0 <= a <= b <= len(out) - h.payload:
            table[g, 1] = kernels.checksum(out.ctypes.data + h.payload + a, b - a)
    check = registry._table_checksum(out, h)
    out[registry.AT_CHECKSUM : registry.AT_CHECKSUM + 4] = np.frombuffer(struct.pack("<I", check), np.uint8)


# --- torch files


def pickled(data: bytes, rng: random.Random) -> bytes:
    """Mutate the opcodes of a pickle: their arguments, their order, single bytes."""
    try:
        at = [position for _, _, position in pickletools.genops(data)]
    except ValueError:
        return change_bytes(data, rng)
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        k = rng.randrange(len(at))
        begin, end = min(at[k], len(out) - 1), at[k + 1] if k + 1 < len(at) else len(data)
        if not out:
            return b"."
        dice = rng.random()
        if dice < 0.3:
            out[begin] = rng.choice(b"(}].KMJGXNQR\x81\x85\x86\x87\x88\x89\x8atu0eash\x80cqr")
        elif dice < 0.7 and end - begin > 1:
            where = rng.randrange(begin + 1, max(begin + 2, end))
            if where < len(out):
                out[where] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif dice < 0.8:
            out[begin:begin] = rng.choice(
                (b"\x8a\x08" + rng.randbytes(8), b"J" + rng.randbytes(4), b"K\xff", b"N", b"}", b"(", b")R")
            )
        elif dice < 0.9:
            del out[begin:end]
        else:
            other = rng.randrange(len(at) - 1)
            out[begin:begin] = data[at[other] : at[other + 1]]
    return bytes(out)


def torch_file(data: bytes, rng: random.Random) -> bytes:
    """Mutate a torch file."""
    dice = rng.random()
    if not data.startswith(b"PK"):
        return change_bytes(data, rng)
    if dice < 0.2:
        return change_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    for _ in range(rng.choice((1, 1, 2))):
        k = 0 if dice < 0.7 else rng.randrange(len(entries))
        name, content = entries[k]
        if name.endswith("data.pkl") and rng.random() < 0.9:
            entries[k] = name, pickled(content, rng)
        elif rng.random() < 0.6:
            entries[k] = name, change_bytes(content, rng)
        elif rng.random() < 0.5:
            entries[k] = rng.choice(entries)[0], content
        else:
            entries[k] = name, content[: rng.randrange(len(content) + 1)]
    out = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if rng.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", kind) as archive:
        archive.debug = 0
        for name in dict(entries):
            archive.writestr(name, dict(entries)[name])
    return out.getvalue()


def lz4_file(data: bytes, rng: random.Random) -> bytes:
    """Mutate an LZ4 frame around a torch file: the frame, or the file in it."""
    if rng.random() < 0.4:
        return change_bytes(data, rng)
    made = torch_file(lz4.frame.decompress(data), rng)
    return lz4.frame.compress(made, content_checksum=rng.random() < 0.5, store_size=rng.random() < 0.5)


# --- texts


YAML_WORDS = [
    *("&a ", "*a", "&a [*a]", "<<: *a\n", "!!python/object:os.system x", "!!binary aaa=", "!!set {a}", "!!timestamp 2020-01-01"),
    *("? [1, 2]\n: 3\n", "- ", "  - ", "{", "}", "[", "]", ": ", "| \n", "> \n", "'", '"', "#", "%YAML 1.1\n---\n", "---\n", "...\n"),
    *("\t", "\0", "\ud800", "\x1b[31m", "1e999", "-.inf", ".nan", "0x10", "1_000", "1:30:00", "null", "~", "no", "=", "9" * 400),
    *("[" * 60, "{a: " * 60, "a: " * 5, "\u2028", "\ufeff", "!!int x", "!!float []", "!!omap [a: 1]", "!!pairs [a]", "!<tag:x> y"),
]  # fmt: skip


def yaml_text(data: bytes, rng: random.Random) -> bytes:
    """Mutate YAML line by line, and with words that mean something in it."""
    if rng.random() < 0.15:
        return change_bytes(data, rng)
    lines = data.decode("utf-8", "replace").split("\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        k = rng.randrange(len(lines))
        dice, key = rng.random(), lines[k].partition(":")[0]
        if dice < 0.4:
            value = rng.choice([*YAML_WORDS, *map(str, INTEGERS), *(f"-{n}" for n in INTEGERS), "x", "true", "[1, a]"])
            lines[k] = f"{key}: {value}"
        elif dice < 0.55:
            at = rng.randrange(len(lines[k]) + 1)
            lines[k] = lines[k][:at] + rng.choice(YAML_WORDS) + lines[k][at:]
        elif dice < 0.65:
            del lines[k]
            lines = lines or [""]
        elif dice < 0.75:
            lines.insert(k, rng.choice(lines))
        elif dice < 0.85:
            lines[k] = rng.choice(("", " ", "  ", "    ")) + lines[k].lstrip()
        else:
            lines.insert(k, rng.choice(YAML_WORDS))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def json_text(data: bytes, rng: random.Random) -> bytes:
    """Mutate JSON, or lines of it."""
    lines = data.split(b"\n")
    k = rng.randrange(len(lines))
    try:
        value = [json.loads(lines[k])]
    except ValueError:
        return change_bytes(data, rng)
    if rng.random() < 0.2:
        return change_bytes(data, rng)
    change_json(value, rng)
    lines[k] = (json.dumps(value[0]) if value else rng.choice(("", "[" * 5000, "nul"))).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)
