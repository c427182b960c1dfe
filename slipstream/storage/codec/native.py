"""Whether native kernels can be used, and what they need: liblz4's C functions and memory by address.

The `lz4` wheel carries liblz4 and exports its functions. They are registered by name, not by address, so that numba may
keep compiled kernels on disk: a cached kernel finds this process's library when it is loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.storage.codec.registry import CodecError

_SYMBOLS = (
    *("LZ4_decompress_safe", "LZ4_decompress_safe_partial", "LZ4_compress_fast"),
    *("LZ4_compress_HC_extStateHC_fastReset", "LZ4_favorDecompressionSpeed"),
)


def available() -> bool:
    """Return whether blocks are coded by native kernels; otherwise NumPy does the same, slower, also with
    SLIPSTREAM_PORTABLE=1."""
    return not os.environ.get("SLIPSTREAM_PORTABLE") and reason() == ""


@cache
def reason() -> str:
    """Return why the native kernels cannot be used; empty if they can. Makes liblz4's functions known to numba's
    linker."""
    try:
        import llvmlite.binding
        import lz4.block
        import numba  # noqa: F401

        library = ctypes.CDLL(lz4.block._block.__file__)
        for name in _SYMBOLS:
            llvmlite.binding.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    except (ImportError, OSError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def source_stamp() -> int:
    """Return a number that changes with the kernels' source.

    Numba looks only at the file of the function it has kept on disk, not at the functions it calls; a kernel that
    closes over this number is compiled again when any of them changes.
    """
    digest = hashlib.sha256()
    for name in ("kernels", "gather", "registry"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest()[:7], "little")


def view(address: int, nbytes: int) -> Any:
    """Return uint8 [nbytes] on memory that somebody else keeps alive."""
    if nbytes < 0:
        raise CodecError(f"a block of {nbytes} bytes")
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)) if nbytes else np.empty(0, np.uint8)
