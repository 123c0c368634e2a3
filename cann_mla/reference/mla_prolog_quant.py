"""torch.ops.pypto.mla_prolog_quant and its sibling mla_prolog: DeepSeek-V4's prolog without a cache.

For every token x, with 64 heads of 512 channels::

    c    = RmsNorm(x wq_a) * gamma_cq              quantised per token: qr_out, qr_scale_out
    f    = (qr_out wq_b) * qr_scale * wq_b_scale
    q    = RmsNorm(f of one head)                  the last channels rotated
    kv   = RmsNorm(x wkv) * gamma_ckv              the last channels rotated

The rotation takes pairs x[2i], x[2i + 1] and leaves them where they are. epsilon is 1e-6 throughout.

Source: the PyPTO kernel of the operator in CANN's recipes (formulas, rounding points).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cann_mla.dtypes import Array
from cann_mla.reference.evaluate import Requested
from cann_mla.reference.matmul import product
from cann_mla.reference.rope import INTERLEAVE, rotate
from cann_mla.reference.rounding import BFLOAT16, through_bfloat16, to_bfloat16, widen
from cann_mla.reference.settings import check_settings, compute_type

EPSILON = 1e-6
_TOKENS_AT_ONCE = 2048
_HEADS_AT_ONCE = 8


class MlaPrologQuantResult(NamedTuple):
    """Outputs of mla_prolog_quant.

    Attributes
    ----------
    q_out : ndarray, shape (t, N, 512)
    kv_out : ndarray, shape (t, 512)
    qr_out : ndarray of INT8, shape (t, 1024)
        From :func:`mla_prolog` in BF16.
    qr_scale_out : ndarray of float32, shape (t, 1)
        Dequantisation scale; None from :func:`mla_prolog`.
    """

    q_out: Array
    kv_out: Array
    qr_out: Array
    qr_scale_out: Array | None


@np.errstate(all="ignore")  # infinities and NaN are values here, as on the device
def mla_prolog_quant(
    *,
    token_x: Array,
    wq_a: Array,
    wq_b: Array,
    wkv: Array,
    rope_cos: Array,
    rope_sin: Array,
    gamma_cq: Array,
    gamma_ckv: Array,
    wq_b_scale: Array,
    precision: str = "device",
) -> MlaPrologQuantResult:
    """Reference of torch.ops.pypto.mla_prolog_quant.

    The sizes are those of the operator; all but the number of tokens could be others.

    Parameters
    ----------
    token_x : ndarray of BF16, shape (t, 4096)
    wq_a : ndarray of BF16, shape (4096, 1024)
    wq_b : ndarray of INT8, shape (1024, N * 512)
    wkv : ndarray of BF16, shape (4096, 512)
    rope_cos, rope_sin : ndarray of BF16, shape (t, 64)
    gamma_cq : ndarray of BF16, shape (1024,)
    gamma_ckv : ndarray of BF16, shape (512,)
    wq_b_scale : ndarray of float32, shape (N * 512, 1)
    precision : {"device", "exact"}
        ``exact``: float64, nothing rounded between two steps, only c quantised; floating outputs are float64.

    Returns
    -------
    MlaPrologQuantResult

    Notes
    -----
    A token whose c is all zero has no scale on the device (127 / 0); here its elements and scale are 0.
    """
    compute = compute_type(precision)
    result = _room(token_x, wq_a, wq_b, wkv, precision, quantised=True)
    for tokens in _blocks(token_x.shape[0]):
        x, cos, sin = token_x[tokens], rope_cos[tokens], rope_sin[tokens]
        c = _rms_norm(_sum_of_two_halves(x, wq_a, compute)) * widen(gamma_cq, compute)
        qr, scale = _quantise_tokens(c)
        result.qr_out[tokens] = qr
        if result.qr_scale_out is not None:
            result.qr_scale_out[tokens] = scale
        for heads, columns in _head_groups(wq_b.shape[1], wkv.shape[1]):
            f = product(qr, wq_b[:, columns], compute) * scale
            f *= wq_b_scale.reshape(1, -1)[:, columns].astype(compute)
            result.q_out[tokens, heads] = _finish_heads(f, wkv.shape[1], cos, sin, precision)
        k = _rms_norm(product(x, wkv, compute)) * widen(gamma_ckv, compute)
        result.kv_out[tokens] = _rotate_end(k[:, None], cos, sin, precision)[:, 0]
    return result


@np.errstate(all="ignore")
def mla_prolog(
    *,
    token_x: Array,
    wq_a: Array,
    wq_b: Array,
    wkv: Array,
    rope_cos: Array,
    rope_sin: Array,
    gamma_cq: Array,
    gamma_ckv: Array,
    precision: str = "device",
) -> MlaPrologQuantResult:
    """Reference of torch.ops.pypto.mla_prolog, which does not quantise.

    Parameters as for :func:`mla_prolog_quant`, with `wq_b` in BF16 and no scale. All three products leave the
    matrix unit as BF16.
    """
    compute = compute_type(precision)

    def multiply(x: Array, w: Array) -> Array:
        return through_bfloat16(product(x, w, compute), precision)

    result = _room(token_x, wq_a, wq_b, wkv, precision, quantised=False)
    for tokens in _blocks(token_x.shape[0]):
        x, cos, sin = token_x[tokens], rope_cos[tokens], rope_sin[tokens]
        c = _stored(_rms_norm(multiply(x, wq_a)) * widen(gamma_cq, compute), precision)
        result.qr_out[tokens] = c
        for heads, columns in _head_groups(wq_b.shape[1], wkv.shape[1]):
            f = multiply(c, wq_b[:, columns])
            result.q_out[tokens, heads] = _finish_heads(f, wkv.shape[1], cos, sin, precision)
        k = _rms_norm(multiply(x, wkv)) * widen(gamma_ckv, compute)
        result.kv_out[tokens] = _rotate_end(k[:, None], cos, sin, precision)[:, 0]
    return result


def _room(
    token_x: Array, wq_a: Array, wq_b: Array, wkv: Array, precision: str, *, quantised: bool
) -> MlaPrologQuantResult:
    """Outputs to fill."""
    tokens, head = token_x.shape[0], wkv.shape[1]
    floating = np.dtype(np.float64) if precision == "exact" else BFLOAT16
    return MlaPrologQuantResult(
        np.empty((tokens, wq_b.shape[1] // head, head), floating),
        np.empty((tokens, head), floating),
        np.empty((tokens, wq_a.shape[1]), np.int8 if quantised else floating),
        np.empty((tokens, 1), compute_type(precision)) if quantised else None,
    )


def _blocks(tokens: int) -> list[slice]:
    """Runs of tokens, so that memory stays bounded."""
    return [slice(i, min(i + _TOKENS_AT_ONCE, tokens)) for i in range(0, tokens, _TOKENS_AT_ONCE)]


def _head_groups(columns: int, head: int) -> list[tuple[slice, slice]]:
    """Runs of heads, and the columns of wq_b that belong to them."""
    heads = columns // head
    groups = [slice(i, min(i + _HEADS_AT_ONCE, heads)) for i in range(0, heads, _HEADS_AT_ONCE)]
    return [(group, slice(group.start * head, group.stop * head)) for group in groups]


def _stored(values: Array, precision: str) -> Array:
    return values if precision == "exact" else to_bfloat16(values)


def _sum_of_two_halves(x: Array, w: Array, compute: np.dtype[Any]) -> Array:
    """The kernel's first product: the two halves of the reduction apart, then added."""
    half = x.shape[1] // 2
    return product(x[:, :half], w[:half], compute) + product(x[:, half:], w[half:], compute)


def _rms_norm(x: Array) -> Array:
    """x * (1 / sqrt(sum(x^2) / n + epsilon)) over the last axis, without gamma."""
    one = x.dtype.type(1)
    mean = np.square(x).sum(axis=-1, keepdims=True) * (one / x.dtype.type(x.shape[-1]))
    normed: Array = x * (one / np.sqrt(mean + x.dtype.type(EPSILON)))
    return normed


def _quantise_tokens(c: Array) -> tuple[Array, Array]:
    """INT8 elements rint(c * s), s = 127 / max|c|, and the dequantisation scale 1 / s."""
    factor = c.dtype.type(127) / np.abs(c).max(axis=-1, keepdims=True)
    zero = np.isinf(factor)
    elements = np.rint(c * np.where(zero, 0, factor))
    scale: Array = np.where(zero, 0, c.dtype.type(1) / factor)
    return np.nan_to_num(elements, nan=0.0).astype(np.int8), scale


def _finish_heads(f: Array, head: int, cos: Array, sin: Array, precision: str) -> Array:
    """Second norm and rotation of some heads, from (t, H * head) to (t, H, head)."""
    return _rotate_end(_rms_norm(f.reshape(f.shape[0], -1, head)), cos, sin, precision)


def _rotate_end(v: Array, cos: Array, sin: Array, precision: str) -> Array:
    """Store (t, H, head) with its last channels rotated; they are rotated from their stored form."""
    out = _stored(v, precision)
    width = cos.shape[-1]
    factors = widen(cos, v.dtype)[:, None], widen(sin, v.dtype)[:, None]
    end = widen(out[..., -width:], v.dtype)
    out[..., -width:] = _stored(rotate(end, *factors, INTERLEAVE), precision)
    return out


def evaluate(
    symbol: str, arguments: dict[str, Any], outputs: Requested, *, soc: str, precision: str
) -> dict[str, Array]:
    """See :data:`cann_mla.reference.evaluate.FAMILIES`."""
    check_settings(soc, precision)
    if symbol == "mla_prolog_quant" and soc == "Ascend950":
        raise ValueError("mla_prolog_quant does not exist on Ascend950; mla_prolog, not quantised, does")
    function = mla_prolog_quant if symbol == "mla_prolog_quant" else mla_prolog
    result = function(precision=precision, **arguments)
    return {name: value for name, value in result._asdict().items() if value is not None and name in outputs}
