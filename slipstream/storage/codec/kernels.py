"""Native code for frames: the steps of a codec as numba kernels that work on addresses (int64), hold no GIL and
allocate nothing.

The steps are those of registry.py, in its order. Numbers are bit patterns throughout: NaNs and -0.0 do not change.
Loads and stores need no alignment: coded groups begin at any byte.
"""

# mypy: ignore-errors
from __future__ import annotations

import ctypes
import os

import llvmlite.binding
import lz4.block
import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE, _WORD32, _WORD64 = (ir.IntType(bits) for bits in (8, 32, 64))


def _instruction(result, parameters, emit):
    """Return a function of int64 numbers, for use in kernels, whose code `emit(builder, *arguments)` makes."""
    signature = result(*[types.int64] * parameters)

    def generate(context, builder, _, args):
        made = emit(builder, *args)
        return context.get_dummy_value() if result == types.void else made

    if parameters == 1:
        return intrinsic(lambda typingctx, a: (signature, generate))
    if parameters == 2:
        return intrinsic(lambda typingctx, a, b: (signature, generate))
    return intrinsic(lambda typingctx, a, b, c: (signature, generate))


def _loader(bits):
    """Return a function that loads the number at an address; narrow ones are unsigned."""

    def emit(builder, address):
        value = builder.load(builder.inttoptr(address, ir.IntType(bits).as_pointer()))
        value.align = 1
        return value if bits == 64 else builder.zext(value, _WORD64)

    return _instruction(types.int64, 1, emit)


def _storer(bits):
    """Return a function that stores the low bits of a number at an address."""

    def emit(builder, address, value):
        value = value if bits == 64 else builder.trunc(value, ir.IntType(bits))
        builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = 1

    return _instruction(types.void, 2, emit)


load8, load16, load32, load64 = (_loader(bits) for bits in (8, 16, 32, 64))
store8, store16, store32, store64 = (_storer(bits) for bits in (8, 16, 32, 64))
# the position of the lowest set bit of a number that is not 0
lowest_bit = _instruction(types.int64, 1, lambda builder, value: builder.cttz(value, ir.Constant(ir.IntType(1), 1)))
count_bits = _instruction(types.int64, 1, lambda builder, value: builder.ctpop(value))
shift_right = _instruction(types.int64, 2, lambda builder, value, places: builder.lshr(value, places))  # without sign


def _emit_atomic_add(builder, address, value):
    return builder.atomic_rmw("add", builder.inttoptr(address, _WORD64.as_pointer()), value, "seq_cst")


def _emit_prefetch(builder, address):
    pointer = _BYTE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _WORD32, _WORD32, _WORD32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    options = [ir.Constant(_WORD32, number) for number in (0, 3, 1)]  # to read, into every cache, data
    builder.call(function, [builder.inttoptr(address, pointer), *options])


def _emit_expand16(builder, target, source, bits):
    words, flags = ir.VectorType(_WORD32, 16), ir.VectorType(ir.IntType(1), 16)
    kind = ir.FunctionType(words, [_WORD32.as_pointer(), flags, words])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.expandload.v16i32")
    mask = builder.bitcast(builder.trunc(bits, ir.IntType(16)), flags)
    value = builder.call(function, [builder.inttoptr(source, _WORD32.as_pointer()), mask, ir.Constant(words, None)])
    builder.store(value, builder.inttoptr(target, words.as_pointer())).align = 1


atomic_add = _instruction(types.int64, 2, _emit_atomic_add)  # to an aligned int64; returns its value before
prefetch = _instruction(types.void, 1, _emit_prefetch)  # a cache line; never faults
# 16 words of 4 bytes: where a bit is set the next word from `source`, else 0. One instruction with AVX-512.
expand16 = _instruction(types.void, 3, _emit_expand16)
HAS_EXPAND = bool(llvmlite.binding.get_host_cpu_features().get("avx512f"))


liblz4 = ctypes.CDLL(lz4.block._block.__file__)


def _lz4(name, result, *parameters):
    """Return a function of the liblz4 that the `lz4` package holds, for use in kernels."""
    function = getattr(liblz4, name, None)
    if function is None:
        raise ImportError(f"the installed lz4 package does not export {name}: reinstall it with pip install lz4")
    llvmlite.binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)  # for numba's linker
    return types.ExternalFunction(name, result(*parameters))


_void, _int, _address = types.void, types.int32, types.intp
lz4_decompress = _lz4("LZ4_decompress_safe", _int, _address, _address, _int, _int)
lz4_decompress_partial = _lz4("LZ4_decompress_safe_partial", _int, _address, _address, _int, _int, _int)
lz4_compress_fast = _lz4("LZ4_compress_fast", _int, _address, _address, _int, _int, _int)
lz4_favor_opening = _lz4("LZ4_favorDecompressionSpeed", _void, _address, _int)
lz4_compress_hc = _lz4("LZ4_compress_HC_extStateHC_fastReset", _int, _address, _address, _address, _int, _int, _int)
memcpy = types.ExternalFunction("memcpy", _address(_address, _address, _address))
memset = types.ExternalFunction("memset", _address(_address, _int, _address))
_pread = types.ExternalFunction("pread", _address(_int, _address, _address, types.int64))
HAS_PREAD = hasattr(os, "pread")


# --- steps

# of the checksum: the first is odd and the step even, so that every weight is odd: no changed word multiplies to zero
_FIRST, _STEP, _LENGTH, _MIX = 0x1E3779B97F4A7C15, 0x3C6EF372FE94F82A, 0x2545F4914F6CDD1D, 0x5851F42D4C957F2D
_HASH = 0x9E3779B97F4A7C15 - (1 << 64)
HASH_SLOTS = 1024  # of the palette's hash table: four times the 256 values it may hold
TABLE_FROM = 2048  # numbers; below, filling a table of all bytes costs more than it saves

inner = nb.njit(nogil=True, inline="never", error_model="numpy")


@inner
def checksum(address, nbytes):
    """Return 32 bits of a multilinear sum over the 8-byte words.

    One multiplication per word and no chain between them: 20 GB/s, where CRC-32 in plain code has 1.5.
    """
    total, weight = np.int64(0), np.int64(_FIRST)
    i = 0
    while i + 64 <= nbytes:
        prefetch(address + i + 1024)  # 7 instead of 1.6 GB/s where the processor does not do so by itself
        for k in range(8):
            total += load64(address + i + 8 * k) * weight
            weight += _STEP
        i += 64
    while i + 8 <= nbytes:
        total += load64(address + i) * weight
        weight += _STEP
        i += 8
    if i < nbytes:
        word = np.int64(0)
        for k in range(nbytes - i):
            word |= load8(address + i + k) << (8 * k)
        total += word * weight
    total += np.int64(nbytes) * _LENGTH
    total ^= shift_right(total, 32)
    total *= _MIX
    return (total ^ shift_right(total, 29)) & 0xFFFFFFFF


@inner
def read_at(file, target, nbytes, offset):
    """Read bytes of a file; return whether it has them."""
    done = 0
    while HAS_PREAD and done < nbytes:
        number = _pread(file, target + done, nbytes - done, offset + done)
        if number <= 0:
            return False
        done += number
    return HAS_PREAD


@inner
def load(address, width):
    """Return a word of 1, 2, 4 or 8 bytes."""
    if width == 4:
        return load32(address)
    if width == 1:
        return load8(address)
    if width == 2:
        return load16(address)
    return load64(address)


@inner
def store(address, value, width):
    """Write a word of 1, 2, 4 or 8 bytes."""
    if width == 4:
        store32(address, value)
    elif width == 1:
        store8(address, value)
    elif width == 2:
        store16(address, value)
    else:
        store64(address, value)


@inner
def xor(target, source, nbytes):
    """Compute target ^= source."""
    words = nbytes >> 3
    for i in range(words):
        store64(target + 8 * i, load64(target + 8 * i) ^ load64(source + 8 * i))
    for i in range(8 * words, nbytes):
        store8(target + i, load8(target + i) ^ load8(source + i))


# --- zero mask: a bitmap of the non-zero words, then these words


@inner
def mask_encode(target, source, count, width):
    """Write bitmap and words at `target`, which has room for `count` words; return the bytes written."""
    bitmap = (count + 7) >> 3
    end = target + bitmap
    for i in range(0, count, 8):
        bits = 0
        for k in range(min(8, count - i)):
            value = load(source + (i + k) * width, width)
            store(end, value, width)  # written always, kept where it is not zero
            kept = value != 0
            end += width * kept
            bits |= kept << k
        store8(target + (i >> 3), bits)
    return end - target


@inner
def mask_count(source, count):
    """Return the number of non-zero words of a masked frame."""
    total = 0
    for i in range(0, count, 64):
        bits = load64(source + (i >> 3))
        if count - i < 64:
            bits &= (np.int64(1) << (count - i)) - 1
        total += count_bits(bits)
    return total


def _expander(load_, store_, width):
    @inner
    def expand(target, source, count):
        """Write the frame that `source` masks; return the address after its words."""
        at = source + ((count + 7) >> 3)
        i = 0
        while i < count:
            bits = load64(source + (i >> 3))
            number = min(64, count - i)
            if number < 64:
                bits &= (np.int64(1) << number) - 1
            place = target + i * width
            if bits == 0:
                memset(place, 0, number * width)
            elif bits == -1:
                memcpy(place, at, 64 * width)
                at += 64 * width
            elif width == 4 and HAS_EXPAND and number & 15 == 0:
                for k in range(0, number, 16):
                    expand16(place + 4 * k, at, bits)
                    at += 4 * count_bits(bits & 0xFFFF)
                    bits = shift_right(bits, 16)
            else:
                for k in range(number):  # no branch on the bit: it cannot be predicted
                    kept = bits & 1
                    store_(place + k * width, load_(at) & -kept)
                    at += kept * width
                    bits = shift_right(bits, 1)
            i += 64
        return at

    return expand


expand1, expand2 = _expander(load8, store8, 1), _expander(load16, store16, 2)
expand4, expand8 = _expander(load32, store32, 4), _expander(load64, store64, 8)


@inner
def mask_decode(target, source, count, width):
    """Write the frame that `source` masks."""
    if width == 4:
        return expand4(target, source, count)
    if width == 1:
        return expand1(target, source, count)
    if width == 2:
        return expand2(target, source, count)
    return expand8(target, source, count)


@inner
def mask_apply(target, source, count, width):
    """Compute target ^= the frame that `source` masks; only changed words are written."""
    at = source + ((count + 7) >> 3)
    for i in range(0, count, 64):
        bits = load64(source + (i >> 3))
        if count - i < 64:
            bits &= (np.int64(1) << (count - i)) - 1
        while bits != 0:
            place = target + (i + lowest_bit(bits)) * width
            store(place, load(place, width) ^ load(at, width), width)
            at += width
            bits &= bits - 1
    return at


# --- palette: the distinct values of a group, then their numbers in 1, 2, 4 or 8 bits


@inner
def palette_bits(values):
    """Return the bits of an index into so many values."""
    return 1 if values <= 2 else 2 if values <= 4 else 4 if values <= 16 else 8


@inner
def packed_bytes(count, bits):
    """Return the bytes of a packed frame, a multiple of 4."""
    return (((count * bits + 7) >> 3) + 3) & ~3


@inner
def palette_find(source, count, width, limit, scratch):
    """Number the distinct values of `count` words; return how many, or 0 if there are more than `limit`.

    `scratch`: HASH_SLOTS int64 values, HASH_SLOTS int64 numbers + 1; then the values in order of appearance, 256 int64.
    """
    memset(scratch + 8 * HASH_SLOTS, 0, 8 * HASH_SLOTS)
    values = 0
    before = np.int64(0)
    for i in range(count):
        value = load(source + i * width, width)
        if i > 0 and value == before:
            continue
        before = value
        slot = shift_right(value * _HASH, 54)
        while True:
            number = load64(scratch + 8 * (HASH_SLOTS + slot))
            if number == 0:
                if values == limit:
                    return 0
                store64(scratch + 8 * slot, value)
                store64(scratch + 8 * (2 * HASH_SLOTS + values), value)
                values += 1
                store64(scratch + 8 * (HASH_SLOTS + slot), values)
                break
            if load64(scratch + 8 * slot) == value:
                break
            slot = (slot + 1) & (HASH_SLOTS - 1)
    return values


@inner
def palette_pack(target, source, count, width, bits, scratch):
    """Write the packed numbers of one frame; `scratch` as `palette_find` left it."""
    nbytes = packed_bytes(count, bits)
    each = 8 // bits
    before, number = np.int64(0), np.int64(0)
    for i in range(nbytes):
        packed = 0
        for k in range(each):
            at = i * each + k
            if at >= count:
                break
            value = load(source + at * width, width)
            if value != before or at == 0:
                before = value
                slot = shift_right(value * _HASH, 54)
                while load64(scratch + 8 * slot) != value or load64(scratch + 8 * (HASH_SLOTS + slot)) == 0:
                    slot = (slot + 1) & (HASH_SLOTS - 1)
                number = load64(scratch + 8 * (HASH_SLOTS + slot)) - 1
            packed |= number << (k * bits)
        store8(target + i, packed)
    return nbytes


@inner
def palette_table(scratch, values, number, bits, width):
    """Write at `scratch`, for each of the 256 bytes, the 8 // bits words it stands for (at most 16 KiB)."""
    each = 8 // bits
    mask = (1 << bits) - 1
    last = number - 1
    for byte in range(256):
        for k in range(each):
            value = load(values + min((byte >> (k * bits)) & mask, last) * width, width)
            store(scratch + (byte * each + k) * width, value, width)


@inner
def palette_unpack(target, source, count, width, bits, values, number, table, has_table):
    """Write the `count` words whose numbers are packed at `source`."""
    each = 8 // bits
    done = 0
    if has_table:
        step = each * width
        done = max(0, count // each - 7 // step)  # 8 bytes are written each time: the last ones one by one
        if step <= 8:
            for i in range(done):
                store64(target + step * i, load64(table + step * load8(source + i)))
        else:
            for i in range(done):
                for k in range(0, step, 8):
                    store64(target + step * i + k, load64(table + step * load8(source + i) + k))
    mask = (1 << bits) - 1
    last = number - 1
    for i in range(done * each, count):
        at = i * bits
        value = load(values + min((load8(source + (at >> 3)) >> (at & 7)) & mask, last) * width, width)
        store(target + i * width, value, width)
