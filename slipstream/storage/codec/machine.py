"""Memory and atomics for numba kernels that work on addresses (int64): the few instructions Python has no word for.

Loads and stores have no alignment: coded groups begin at any byte.
"""

# mypy: ignore-errors
from __future__ import annotations

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slipstream.storage.codec import native

if native.reason():  # a kernel that lacks a function ends the process when it is loaded
    raise ImportError(f"the native kernels cannot be used: {native.reason()}")

_I64 = ir.IntType(64)


def _loader(bits: int):
    @intrinsic
    def load(typingctx, address):
        """The number at `address`; narrow ones are taken as unsigned."""

        def codegen(context, builder, signature, args):
            kind = ir.IntType(bits)
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()))
            value.align = 1
            return value if bits == 64 else builder.zext(value, _I64)

        return types.int64(types.int64), codegen

    return load


def _storer(bits: int):
    @intrinsic
    def store(typingctx, address, value):
        """Write the low bits of `value` at `address`."""

        def codegen(context, builder, signature, args):
            kind = ir.IntType(bits)
            value = args[1] if bits == 64 else builder.trunc(args[1], kind)
            instruction = builder.store(value, builder.inttoptr(args[0], kind.as_pointer()))
            instruction.align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return store


load8, load16, load32, load64 = (_loader(bits) for bits in (8, 16, 32, 64))
store8, store16, store32, store64 = (_storer(bits) for bits in (8, 16, 32, 64))


@intrinsic
def lowest_bit(typingctx, value):
    """The place of the lowest set bit of `value`, which must not be 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def count_bits(typingctx, value):
    """How many bits of `value` are set."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.int64), codegen


@intrinsic
def shift_right(typingctx, value, places):
    """`value` shifted right, zeros coming in from above."""

    def codegen(context, builder, signature, args):
        return builder.lshr(args[0], args[1])

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def prefetch(typingctx, address):
    """Ask for the cache line at `address`; never faults."""

    def codegen(context, builder, signature, args):
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, ir.IntType(32), ir.IntType(32), ir.IntType(32)])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        one, three = ir.Constant(ir.IntType(32), 1), ir.Constant(ir.IntType(32), 3)
        builder.call(function, [builder.inttoptr(args[0], pointer), ir.Constant(ir.IntType(32), 0), three, one])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def expand16(typingctx, target, source, bits):
    """Write 16 words of 4 bytes: where a bit of `bits` is set the next word from `source`, else 0. One instruction with AVX-512."""

    def codegen(context, builder, signature, args):
        words = ir.VectorType(ir.IntType(32), 16)
        flags = ir.VectorType(ir.IntType(1), 16)
        pointer = ir.IntType(32).as_pointer()
        kind = ir.FunctionType(words, [pointer, flags, words])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.expandload.v16i32")
        mask = builder.bitcast(builder.trunc(args[2], ir.IntType(16)), flags)
        value = builder.call(function, [builder.inttoptr(args[1], pointer), mask, ir.Constant(words, None)])
        instruction = builder.store(value, builder.inttoptr(args[0], words.as_pointer()))
        instruction.align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


HAS_EXPAND = bool(llvmlite.binding.get_host_cpu_features().get("avx512f"))


@intrinsic
def atomic_add(typingctx, address, value):
    """Add to the aligned int64 at `address`; gives back what was there before."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", builder.inttoptr(args[0], _I64.as_pointer()), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def atomic_swap_if(typingctx, address, expected, value):
    """Write `value` at the aligned int64 if `expected` is there; gives back whether it was."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], _I64.as_pointer())
        result = builder.cmpxchg(pointer, args[1], args[2], "seq_cst", "seq_cst")
        return builder.zext(builder.extract_value(result, 1), _I64)

    return types.int64(types.int64, types.int64, types.int64), codegen


lz4_decompress = types.ExternalFunction(
    "LZ4_decompress_safe", types.int32(types.intp, types.intp, types.int32, types.int32)
)
lz4_decompress_partial = types.ExternalFunction(
    "LZ4_decompress_safe_partial", types.int32(types.intp, types.intp, types.int32, types.int32, types.int32)
)
lz4_compress_fast = types.ExternalFunction(
    "LZ4_compress_fast", types.int32(types.intp, types.intp, types.int32, types.int32, types.int32)
)
lz4_favor_opening = types.ExternalFunction("LZ4_favorDecompressionSpeed", types.void(types.intp, types.int32))
lz4_compress_hc = types.ExternalFunction(
    "LZ4_compress_HC_extStateHC_fastReset",
    types.int32(types.intp, types.intp, types.intp, types.int32, types.int32, types.int32),
)
memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
memset = types.ExternalFunction("memset", types.intp(types.intp, types.int32, types.intp))
