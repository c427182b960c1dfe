"""Bytes in, bytes out: byte planes, differences, zero masks, entropy coding and checksums, in threads that do not hold the GIL."""

from slipstream.storage.codec.chunks import (
    CHUNK_BYTES,
    Scratch,
    decode_chunk,
    dequantise_moments,
    encode_chunk,
    moments_nbytes,
    quantise_moments,
)
from slipstream.storage.codec.registry import CodecError

__all__ = [
    "CHUNK_BYTES",
    "CodecError",
    "Scratch",
    "decode_chunk",
    "dequantise_moments",
    "encode_chunk",
    "moments_nbytes",
    "quantise_moments",
]
