"""One root seed, many independent streams: every component's seed follows from the root, its name and the process rank."""

from __future__ import annotations

import hashlib


def derive_seed(root: int, component: str, rank: int = 0) -> int:
    """A 63-bit seed for `component` on process `rank`; equal inputs give equal seeds on every machine."""
    digest = hashlib.blake2b(f"{root}/{component}/{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
