"""AtbMLAPreprocess: from hidden states to queries and the latent cache, with INT8 projections.

::

    q0 = quantise(rmsNorm(input) gamma0 + beta0)          [ckv | k_pe | q_lora] = dequantise(q0 wdqkv^T)
    q1 = quantise(rmsNorm(q_lora) gamma1 + beta1)         [nope | q_pe] a head  = dequantise(q1 wuq^T)
    query = [nope wuk[h] | rope(q_pe)]                    cache row = [rmsNorm(ckv) gamma2 | rope(k_pe)]

The rotation is that of halves. Everything between the steps is stored in the 16-bit type of the input.

Source: ATB's golden of mla_preprocess for the quantisations (its kernel takes every INT8 value through half, which
moves some that lie next to a tie); ATB's kernel for the order of all other operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import FP32, INT8, Array, dtype
from cann_mla.formats import nz_block_columns
from cann_mla.reference.attention_numbers import Floats, widen
from cann_mla.reference.cache import scatter
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.matmul import product
from cann_mla.reference.rope import HALF, rotate
from cann_mla.reference.settings import check_settings, compute_type

KVCACHE, KROPE_CTKV, INT8_NZCACHE, NZCACHE = range(4)
PER_TENSOR_ASYMM, PER_TOKEN_SYMM = 0, 1

_EPSILON = 1e-6  # the kernel has it built in; the argument is reserved
_RESERVED = (
    "wdq_dim", "q_rope_dim", "k_rope_dim", "epsilon", "q_rotary_coeff", "k_rotary_coeff",
    "transpose_wdq", "transpose_wuq", "transpose_wuk",
)  # fmt: skip
_LATENT, _ROPE, _NOPE = 512, 64, 128


class MlaPreprocessResult(NamedTuple):
    """Outputs; the second of each pair is None with cache mode 0.

    Attributes
    ----------
    q_out0 : ndarray
        (N, H, 576) with cache mode 0, else (N, H, 512); int8 with mode 2.
    kv_cache_out0, kv_cache_out1 : ndarray
        New arrays, as the call leaves the caches.
    q_out1 : ndarray, shape (N, H, 64)
    """

    q_out0: Array
    kv_cache_out0: Array
    q_out1: Array | None
    kv_cache_out1: Array | None


class _Projection(NamedTuple):
    """One normalisation, quantisation and INT8 product."""

    gamma: Array
    beta: Array
    quant_scale: Array | None
    quant_offset: Array | None
    weight: Array
    de_scale: Array
    bias: Array | None


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def mla_preprocess(
    *,
    input: Array,
    gamma0: Array,
    beta0: Array,
    wdqkv: Array,
    de_scale0: Array,
    gamma1: Array,
    beta1: Array,
    wuq: Array,
    de_scale1: Array,
    gamma2: Array,
    cos: Array,
    sin: Array,
    wuk: Array,
    kv_cache: Array,
    slotmapping: Array,
    quant_scale0: Array | None = None,
    quant_offset0: Array | None = None,
    bias0: Array | None = None,
    quant_scale1: Array | None = None,
    quant_offset1: Array | None = None,
    bias1: Array | None = None,
    kv_cache_rope: Array | None = None,
    ctkv_scale: Array | None = None,
    q_nope_scale: Array | None = None,
    cache_mode: int = KVCACHE,
    quant_mode: int = PER_TENSOR_ASYMM,
    precision: str = "device",
) -> MlaPreprocessResult:
    """Compute queries and write the latent keys of N tokens into a paged cache.

    Parameters
    ----------
    input : ndarray of float16 or bfloat16, shape (N, hidden)
        Its type is "the 16-bit type" below.
    gamma0, beta0, gamma1, beta1, gamma2 : ndarray of the 16-bit type
        Shapes (hidden,), (hidden,), (1536,), (1536,) and (512,).
    wdqkv, wuq : ndarray of int8
        (2112, hidden) and (H * 192, 1536), output channel first; or the same in blocks,
        (1, hidden / 32, 2112, 32) and (1, 48, H * 192, 32).
    de_scale0, de_scale1 : ndarray, one element an output channel
        float32; or int64 with the bits of a float32 in the low half.
    quant_scale0, quant_scale1 : ndarray of the 16-bit type, shape (1,); quant_offset0, quant_offset1 : of int8
    bias0, bias1 : ndarray of int32
        All six for quant mode 0.
    cos, sin : ndarray of the 16-bit type, shape (N, 64)
    wuk : ndarray of the 16-bit type, shape (H, 128, 512) or, in blocks, (H, 32, 128, 16)
    kv_cache, kv_cache_rope : ndarray
        Mode 0: (blocks, size, 1, 576) and none. Mode 1: (blocks, size, 1, 512) and (.., 64). Mode 2: int8
        (blocks, 16, 128, 32) and (blocks, 4, 128, 16). Mode 3: (blocks, 32, 128, 16) and (blocks, 4, 128, 16).
        Not modified.
    slotmapping : ndarray of int32, shape (N,)
        Row in the cache over all blocks; negative ones skip.
    ctkv_scale, q_nope_scale : ndarray, shapes (1,) and (H,)
        For cache mode 2: latent keys are divided by the first, queries multiplied by the second.
    cache_mode, quant_mode : int
        Quant mode 0 PER_TENSOR_ASYMM, 1 PER_TOKEN_SYMM.
    precision : {"device", "exact"}

    Returns
    -------
    MlaPreprocessResult
        Floating results are float64 in ``exact`` precision.

    Raises
    ------
    ValueError
        If an operand that the modes need is missing.
    NotImplementedError
        For other quant modes, and weights that are not INT8.
    """
    _check(wdqkv, quant_mode, cache_mode, kv_cache_rope, ctkv_scale, q_nope_scale)
    work, kind = compute_type(precision), input.dtype
    down = _Projection(gamma0, beta0, quant_scale0, quant_offset0, wdqkv, de_scale0, bias0)
    up = _Projection(gamma1, beta1, quant_scale1, quant_offset1, wuq, de_scale1, bias1)
    latent = _project(widen(input, work), down, quant_mode, kind, work)
    ckv, k_pe, q_lora = np.split(latent, [_LATENT, _LATENT + _ROPE], axis=1)
    heads = _project(q_lora, up, quant_mode, kind, work).reshape(len(input), -1, _NOPE + _ROPE)
    cosine, sine = widen(cos, work), widen(sin, work)
    nope = np.matmul(heads[..., :_NOPE].swapaxes(0, 1), widen(_unblocked(wuk), work)).swapaxes(0, 1)
    nope = _stored(nope, kind, work)
    q_pe = rotate(heads[..., _NOPE:], cosine[:, None], sine[:, None], HALF)
    normed = ckv / np.sqrt(_mean_square(ckv) + work.type(_EPSILON)) * widen(gamma2, work)
    rotated = rotate(k_pe, cosine, sine, HALF)
    if cache_mode == KVCACHE:
        query = np.concatenate([nope, q_pe], axis=-1)
        row = np.concatenate([normed, rotated], axis=-1)
        return MlaPreprocessResult(_out(query, kind, work), _written(kv_cache, slotmapping, row, work), None, None)
    if cache_mode == INT8_NZCACHE:
        assert ctkv_scale is not None and q_nope_scale is not None  # noqa: PT018
        nope = _to_int8(nope * widen(q_nope_scale.reshape(1, -1, 1), work))
        normed = normed * (1 / widen(ctkv_scale.reshape(-1), work))
        normed = _to_int8(_stored(normed, np.dtype(np.float16), work))
    assert kv_cache_rope is not None
    blocked = cache_mode != KROPE_CTKV
    return MlaPreprocessResult(
        nope if nope.dtype == np.int8 else _out(nope, kind, work),
        _written(kv_cache, slotmapping, normed, work, blocked=blocked),
        _out(q_pe, kind, work),
        _written(kv_cache_rope, slotmapping, rotated, work, blocked=blocked),
    )


def _check(
    wdqkv: Array,
    quant_mode: int,
    cache_mode: int,
    kv_cache_rope: Array | None,
    ctkv_scale: Array | None,
    q_nope_scale: Array | None,
) -> None:
    if quant_mode not in (PER_TENSOR_ASYMM, PER_TOKEN_SYMM):
        raise NotImplementedError(f"AtbMLAPreprocess refuses quantMode {quant_mode}; 0 and 1 work")
    if dtype(wdqkv.dtype) is not INT8:
        raise NotImplementedError(f"no reference for wdqkv of {dtype(wdqkv.dtype).name}; INT8 has one")
    if cache_mode not in (KVCACHE, KROPE_CTKV, INT8_NZCACHE, NZCACHE):
        raise ValueError(f"cacheMode is 0 to 3, not {cache_mode}")
    if cache_mode != KVCACHE and kv_cache_rope is None:
        raise ValueError(f"cacheMode {cache_mode} needs kvCacheRope")
    if cache_mode == INT8_NZCACHE and (ctkv_scale is None or q_nope_scale is None):
        raise ValueError("cacheMode 2 needs ctkvScale and qNopeScale")


def _project(x: Floats, step: _Projection, quant_mode: int, kind: np.dtype[Any], work: np.dtype[Any]) -> Floats:
    """Normalise, quantise, multiply and dequantise rows."""
    factor = 1 / np.sqrt(_mean_square(x) + work.type(_EPSILON))
    normed = x * factor * widen(step.gamma, work) + widen(step.beta, work)
    a_token: Floats | None = None
    if quant_mode == PER_TOKEN_SYMM:
        normed = _stored(normed, np.dtype(np.float16), work)
        a_row = work.type(127) / np.abs(normed).max(axis=1, keepdims=True)
        quantised, a_token = _to_int8(normed * a_row), 1 / a_row
    else:
        if step.quant_scale is None or step.quant_offset is None:
            raise ValueError("quantMode 0 needs quantScale0, quantOffset0, quantScale1 and quantOffset1")
        inverse = 1 / widen(step.quant_scale, work)
        quantised = _to_int8(normed * inverse + step.quant_offset.astype(work))
    sums = product(quantised, _unblocked(step.weight).T, np.dtype(np.float64))
    if step.bias is not None and quant_mode == PER_TENSOR_ASYMM:
        sums += step.bias
    result = sums.astype(work) * _de_scale(step.de_scale, work)
    return _stored(result if a_token is None else result * a_token, kind, work)


def _mean_square(x: Floats) -> Floats:
    mean: Floats = (np.square(x) * x.dtype.type(1 / x.shape[1])).sum(axis=1, keepdims=True)
    return mean


def _de_scale(scale: Array, work: np.dtype[Any]) -> Floats:
    """Scales as numbers; INT64 carries the bits of a float32 in its low half."""
    if dtype(scale.dtype) is FP32:
        return scale.astype(work)
    return scale.astype(np.uint64).astype(np.uint32).view(np.float32).astype(work)


def _to_int8(values: Floats) -> Array:
    """To the nearest, ties to even, saturating; NaN becomes 0."""
    elements: Array = np.rint(np.clip(np.nan_to_num(values, nan=0.0), -128, 127)).astype(np.int8)
    return elements


def _stored(values: Floats, kind: np.dtype[Any], work: np.dtype[Any]) -> Floats:
    """Value after a store in the 16-bit type and a load."""
    return widen(values.astype(kind), work) if work == np.float32 else values


def _out(values: Floats, kind: np.dtype[Any], work: np.dtype[Any]) -> Array:
    return values.astype(kind) if work == np.float32 else values


def _unblocked(weight: Array) -> Array:
    """A weight whose columns lie in blocks of 32 bytes, as rows; others as they are."""
    if weight.ndim != 4:
        return weight
    outer, blocks, rows, c0 = weight.shape
    plain: Array = weight.transpose(0, 2, 1, 3).reshape(outer, rows, blocks * c0)
    return plain[0] if dtype(weight.dtype) is INT8 else plain


def _written(cache: Array, slots: Array, rows: Array, work: np.dtype[Any], *, blocked: bool = False) -> Array:
    """The cache with a row a token; integer caches stay integer."""
    width = rows.shape[-1]
    exact = work == np.float64 and cache.dtype != np.int8
    written = np.array(widen(cache, np.float64) if exact else cache, order="C")
    block_size = cache.shape[2 if blocked else 1]
    view = written.reshape(cache.shape[0], block_size, 1, width)
    c0 = nz_block_columns(cache.dtype) if blocked else None
    scatter(view, slots.reshape(-1).astype(np.int64), rows if exact else rows.astype(cache.dtype), c0=c0)
    return written


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    given = {name: v for name, v in arguments.items() if name not in _RESERVED}
    result = mla_preprocess(precision=precision, **given)._asdict()
    return {name: array for name, array in result.items() if array is not None and name in outputs}
