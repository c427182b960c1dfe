"""What the native kernels stand on: liblz4's C functions, unaligned memory access, and the answer whether they are there.

The `lz4` wheel carries liblz4 and exports its functions. They are registered by name, not by address, so that numba may
keep compiled kernels on disk: a cached kernel finds this process's library when it is loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slipstream.storage.codec.registry import CodecError

_SYMBOLS = (
    *("LZ4_decompress_safe", "LZ4_decompress_safe_partial", "LZ4_compress_fast"),
    *("LZ4_compress_HC_extStateHC_fastReset", "LZ4_favorDecompressionSpeed"),
)
_PORTABLE = "SLIPSTREAM_PORTABLE"

_found: tuple[bool, str] | None = None


def available() -> bool:
    """Whether blocks are coded by native kernels; otherwise NumPy does the same, slower. SLIPSTREAM_PORTABLE=1 asks for that."""
    return not os.environ.get(_PORTABLE) and reason() == ""


def reason() -> str:
    """Why the native kernels cannot be used; empty when they can."""
    global _found
    if _found is None:
        try:
            _register()
            _found = (True, "")
        except (ImportError, OSError, AttributeError) as error:
            _found = (False, f"{type(error).__name__}: {error}")
    return _found[1]


def _register() -> None:
    """Make liblz4's functions known to numba's linker under their own names."""
    import lz4.block

    register(ctypes.CDLL(lz4.block._block.__file__), _SYMBOLS)


def register(library: ctypes.CDLL, names: Iterable[str]) -> None:
    """Let kernels call these functions of `library` by name."""
    import llvmlite.binding
    import numba  # noqa: F401

    for name in names:
        llvmlite.binding.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)


def source_stamp() -> int:
    """A number that changes with the kernels' source. Numba looks only at the file of the function it has kept on disk, not at what
    that calls; a kernel that closes over this number is compiled again when any of them changes."""
    digest = hashlib.sha256()
    for name in ("kernels", "gather", "pool", "registry"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest()[:7], "little")


def view(address: int, nbytes: int) -> Any:
    """uint8 [nbytes] on memory that somebody else keeps alive."""
    import numpy as np

    if nbytes < 0:
        raise CodecError(f"a block of {nbytes} bytes")
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)) if nbytes else np.empty(0, np.uint8)
