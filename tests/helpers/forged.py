"""Takes a file of ours apart, and puts it together again with other contents and checksums that fit: what a hostile
writer could do."""

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from slipstream.storage.tensor_file import ALIGN, HASH, HASH_BYTES

PIECE = struct.Struct(">BHIL")


@dataclass
class Parts:
    """The contents of a file."""

    description: Any  # version, kind and head
    pieces: list[tuple[int, bytes]]  # codec and data
    entries: Any = None  # None: all data are one entry of bytes

    @property
    def head(self) -> Any:
        return self.description["head"]


def take_apart(data: bytes) -> Parts:
    """Return the contents of a good file."""
    at = 8 + struct.unpack("<Q", data[:8])[0]
    description = json.loads(json.loads(data[8:at])["__metadata__"]["slipstream"])
    pieces = []
    for codec, high, low, _ in PIECE.iter_unpack(bytes.fromhex(description.pop("pieces"))):
        size = (high << 32) + low
        pieces.append((codec, data[at : at + size]))
        at += size
    return Parts(description, pieces)


def put_together(parts: Parts) -> bytes:
    """Return a file with these contents; its table, its entries and its hash are right if they are not given."""
    data = b"".join(piece for _, piece in parts.pieces)
    description = parts.description
    if isinstance(description, dict) and "pieces" not in description:
        rows = [PIECE.pack(codec, len(p) >> 32, len(p) & 0xFFFFFFFF, zlib.crc32(p)) for codec, p in parts.pieces]
        description = {**description, "pieces": b"".join(rows).hex()}
    entries = parts.entries
    if entries is None:
        entries = {"data": entry(0, len(data)), HASH: entry(len(data), len(data) + HASH_BYTES)}
    return with_header(as_json(description), entries, data)


def entry(begin: int, end: int) -> dict[str, Any]:
    """An entry of bytes."""
    return {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}


def with_header(description: str, entries: Any, data: bytes) -> bytes:
    """Return a file with this text as its description."""
    text = as_json({"__metadata__": {"slipstream": description}, **entries}).encode()
    return with_hash(text + b" " * (-(8 + len(text)) % ALIGN), data)


def with_hash(text: bytes, data: bytes) -> bytes:
    """Return a file with these bytes as its header."""
    start = struct.pack("<Q", len(text)) + text
    return start + data + hashlib.sha256(start).digest()


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def forge(path, change) -> None:
    """Rewrite a file as `change(parts)` says; it may return the text of another description."""
    parts = take_apart(path.read_bytes())
    changed = change(parts)
    if isinstance(changed, bytes):
        data = b"".join(piece for _, piece in parts.pieces)
        entries = {"data": entry(0, len(data)), HASH: entry(len(data), len(data) + HASH_BYTES)}
        path.write_bytes(with_header(changed.decode("latin1"), entries, data))
    else:
        path.write_bytes(put_together(parts))
