"""MlaProlog, versions 1 to 3: from hidden states to the query of MLA and the rows of its caches.

Notation: B batch, S sequence, T = B*S tokens, He hidden size, Hcq latent size of the query, Hckv of keys and
values (512), N heads, D head size (128 or 192), Dr rotated size (64). "tokens" below stands for ``(B, S)`` or,
fused, ``(T,)``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import Any

from cann_mla.dtypes import dtype
from cann_mla.libraries import load
from cann_mla.ops.call import Operand, OperatorCall, check_rank
from cann_mla.ops.mla_prolog_scenarios import SCENARIOS, scenario
from cann_mla.runtime.device import Device
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor

MX_BLOCK = 32
_PACKED = ("weight_dq", "weight_uq_qr", "weight_dkv_kr")


@dataclass(frozen=True)
class MlaPrologResult:
    """Outputs of one call; None where there is none.

    Attributes
    ----------
    query : Tensor, shape (*tokens, N, Hckv)
        BF16, or quantised where the scenario quantises the query.
    query_rope : Tensor of BF16, shape (*tokens, N, Dr)
    kv_cache, kr_cache : Tensor or ndarray
        The caches that were given, updated; with ``in_place=False`` updated copies of them.
    dequant_scale_q_nope : Tensor of FP32, shape (T, N, 1), or None
    query_norm : Tensor, shape (*tokens, Hcq), or None
    dequant_scale_q_norm : Tensor of FP32, shape (T, 1), or of FLOAT8_E8M0, shape (T, Hcq / 32), or None

    Notes
    -----
    The tensors hold their values when the stream has passed the call. :meth:`close` (or ``with``) closes the
    outputs, not the caches that were given; the memory of what is not closed goes with its last user.
    """

    query: Tensor
    query_rope: Tensor
    kv_cache: Operand
    kr_cache: Operand
    dequant_scale_q_nope: Tensor | None = None
    query_norm: Tensor | None = None
    dequant_scale_q_norm: Tensor | None = None
    owns_caches: bool = False

    def close(self) -> None:
        """Close the outputs, and the caches that are copies."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor) and (self.owns_caches or field.name not in ("kv_cache", "kr_cache")):
                value.close()

    def __enter__(self) -> MlaPrologResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_NO_OPERANDS = (
    "stream", "quant", "with_query_norm", "in_place",
    "query", "query_rope", "dequant_scale_q_nope", "query_norm", "dequant_scale_q_norm",
)  # fmt: skip


@dataclass(frozen=True)
class _Sizes:
    tokens: tuple[int, ...]
    heads: int
    latent_query: int
    latent_key: int
    rope: int

    @classmethod
    def of(cls, token_x: Operand, weight_dq: Operand, weight_uk: Operand, rope_cos: Operand) -> _Sizes:
        """The sizes that the shapes of outputs follow from; ranks are checked, the rest is CANN's to judge."""
        check_rank("token_x", token_x, 2, 3)
        check_rank("weight_dq", weight_dq, 2, 4)
        check_rank("weight_uk", weight_uk, 3)
        check_rank("rope_cos", rope_cos, 2, 3)
        # A weight described by its four-dimensional block shape has its columns in dimensions 0 and 3.
        dq = weight_dq.shape
        latent_query = dq[1] if len(dq) == 2 else dq[0] * dq[3]
        return cls(
            tuple(token_x.shape[:-1]),
            weight_uk.shape[0],
            latent_query,
            weight_uk.shape[2],
            rope_cos.shape[-1],
        )

    @property
    def count(self) -> int:
        return prod(self.tokens)


def pack_weight(weight: Any, *, device: Device | int | None = None) -> Tensor:
    """Put a weight on the device in FRACTAL_NZ, once for many calls.

    Parameters
    ----------
    weight : ndarray, shape (rows, columns)
        ``weight_dq``, ``weight_uq_qr`` or ``weight_dkv_kr`` as a plain row-major matrix.
    device : Device or int, optional
        Default: the current device.

    Returns
    -------
    Tensor
        The caller's to close.

    Raises
    ------
    ValueError
        If the weight is no matrix.
    """
    if weight.ndim != 2:
        raise ValueError(f"a weight is a matrix (rows, columns); the array given has shape {weight.shape}")
    return Tensor.from_numpy(weight, device=device, format="FRACTAL_NZ")


def mla_prolog_v3(
    token_x: Operand,
    weight_dq: Operand,
    weight_uq_qr: Operand,
    weight_uk: Operand,
    weight_dkv_kr: Operand,
    rmsnorm_gamma_cq: Operand,
    rmsnorm_gamma_ckv: Operand,
    rope_sin: Operand,
    rope_cos: Operand,
    kv_cache: Operand,
    kr_cache: Operand,
    cache_index: Operand | None = None,
    *,
    stream: Stream,
    quant: str = "none",
    cache_mode: str = "PA_BSND",
    dequant_scale_x: Operand | None = None,
    dequant_scale_w_dq: Operand | None = None,
    dequant_scale_w_uq_qr: Operand | None = None,
    dequant_scale_w_dkv_kr: Operand | None = None,
    quant_scale_ckv: Operand | None = None,
    quant_scale_ckr: Operand | None = None,
    smooth_scales_cq: Operand | None = None,
    actual_seq_len: Operand | None = None,
    k_nope_clip_alpha: Operand | None = None,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    qc_qr_scale: float = 1.0,
    kc_scale: float = 1.0,
    with_query_norm: bool = False,
    in_place: bool = True,
    query: Tensor | None = None,
    query_rope: Tensor | None = None,
    dequant_scale_q_nope: Tensor | None = None,
    query_norm: Tensor | None = None,
    dequant_scale_q_norm: Tensor | None = None,
) -> MlaPrologResult:
    """Call ``aclnnMlaPrologV3WeightNz`` on a stream.

    Parameters
    ----------
    token_x : shape (*tokens, He)
        BF16, or quantised as the scenario says.
    weight_dq, weight_uq_qr, weight_dkv_kr : shapes (He, Hcq), (Hcq, N*(D+Dr)), (He, Hckv+Dr)
        Plain row-major matrices are packed to FRACTAL_NZ for this call; give tensors of :func:`pack_weight` to
        pack once.
    weight_uk : BF16, shape (N, D, Hckv)
    rmsnorm_gamma_cq, rmsnorm_gamma_ckv : BF16, shapes (Hcq,), (Hckv,)
    rope_sin, rope_cos : BF16, shape (*tokens, Dr)
    kv_cache, kr_cache
        Updated in place: (BlockNum, BlockSize, 1, W) for the ``PA_*`` modes, (B, S, 1, W) for ``BSND``, (T, 1, W)
        for ``TND``; W is Hckv and Dr. Per tile, ``kv_cache`` has rows of 656 bytes and ``kr_cache`` is empty. An
        array is updated too, for which the call waits for the stream.
    cache_index : INT64, optional
        Rows (``PA_BSND``, ``PA_NZ``: one a token) or blocks (``PA_BLK_*``); a negative entry skips. None for
        ``BSND`` and ``TND``.
    stream : Stream
        The call returns when the work is queued there.
    quant : str
        Scenario: a key of :data:`SCENARIOS`. It stands for the operator's five mode numbers.
    cache_mode : {"PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND"}
    dequant_scale_x, dequant_scale_w_dq, dequant_scale_w_dkv_kr
        For full quantisation; ``dequant_scale_w_uq_qr`` for partial and full.
    quant_scale_ckv, quant_scale_ckr, k_nope_clip_alpha
        For per-tensor, per-channel and INT8 per-tile caches.
    smooth_scales_cq : FP32, shape (1, Hcq), optional
    actual_seq_len : INT32, shape (B,), optional
        Inclusive prefix sums, exactly for fused tokens with ``PA_BLK_*``.
    rmsnorm_epsilon_cq, rmsnorm_epsilon_ckv, qc_qr_scale, kc_scale : float
    with_query_norm : bool
        Ask for the normalised query (and its scale, where it is quantised) as outputs.
    in_place : bool
        False leaves `kv_cache` and `kr_cache` as they are and updates copies of them, which are part of the result.
    query, query_rope, dequant_scale_q_nope, query_norm, dequant_scale_q_norm : Tensor, optional
        Where to write; new tensors otherwise. A `query_norm` given asks for it.

    Returns
    -------
    MlaPrologResult

    Raises
    ------
    ValueError
        If the scenario is unknown, not on this product or not with this cache mode; if an operand given as output
        has another shape or type.
    CannError
        If CANN refuses the call; it names the operand.

    Notes
    -----
    Arrays given as operands are copied to the stream's device and given back when the stream has passed the call.
    Source: CANN's documentation of aclnnMlaPrologV3WeightNz.
    """
    given = {n: v for n, v in locals().items() if n not in _NO_OPERANDS}
    chosen = scenario(quant, cache_mode=cache_mode, product=load().product)
    sizes = _Sizes.of(token_x, weight_dq, weight_uk, rope_cos)
    tokens, heads = sizes.tokens, sizes.heads
    scale_q = norm = norm_scale = None
    with OperatorCall("aclnnMlaPrologV3WeightNz", stream) as call:
        if not in_place:
            kv_cache, kr_cache = (call.copy(cache) for cache in (kv_cache, kr_cache))
            given.update(kv_cache=kv_cache, kr_cache=kr_cache)
        call.give({**given, "tile_size": 128, **chosen.modes}, packed=_PACKED)
        q = call.output("query", query, (*tokens, heads, sizes.latent_key), chosen.query_dtype)
        rope = call.output("query_rope", query_rope, (*tokens, heads, sizes.rope), "BF16")
        if chosen.quantised_query:
            scale_q = call.output("dequant_scale_q_nope", dequant_scale_q_nope, (sizes.count, heads, 1), "FP32")
        if with_query_norm or query_norm is not None:
            norm = call.output("query_norm", query_norm, (*tokens, sizes.latent_query), chosen.weight_uq_qr_dtype)
            if chosen.query_norm_scale_dtype is not None:
                blocks = sizes.latent_query // MX_BLOCK if chosen.query_norm_scale_dtype == "FLOAT8_E8M0" else 1
                shape = (sizes.count, blocks)
                norm_scale = call.output(
                    "dequant_scale_q_norm", dequant_scale_q_norm, shape, chosen.query_norm_scale_dtype
                )
        call.run()
    return MlaPrologResult(q, rope, kv_cache, kr_cache, scale_q, norm, norm_scale, owns_caches=not in_place)


def mla_prolog_v2(
    token_x: Operand,
    weight_dq: Operand,
    weight_uq_qr: Operand,
    weight_uk: Operand,
    weight_dkv_kr: Operand,
    rmsnorm_gamma_cq: Operand,
    rmsnorm_gamma_ckv: Operand,
    rope_sin: Operand,
    rope_cos: Operand,
    cache_index: Operand,
    kv_cache: Operand,
    kr_cache: Operand,
    *,
    stream: Stream,
    cache_mode: str = "PA_BSND",
    dequant_scale_x: Operand | None = None,
    dequant_scale_w_dq: Operand | None = None,
    dequant_scale_w_uq_qr: Operand | None = None,
    dequant_scale_w_dkv_kr: Operand | None = None,
    quant_scale_ckv: Operand | None = None,
    quant_scale_ckr: Operand | None = None,
    smooth_scales_cq: Operand | None = None,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    query: Tensor | None = None,
    query_rope: Tensor | None = None,
    dequant_scale_q_nope: Tensor | None = None,
) -> MlaPrologResult:
    """Call ``aclnnMlaPrologV2WeightNz`` on a stream. Not on Ascend950; deprecated by CANN in favour of version 3.

    Parameters and ownership as for :func:`mla_prolog_v3`, with these differences: the scenario follows from the
    types of the operands; ``cache_mode`` is ``PA_BSND`` or ``PA_NZ``; ``quant_scale_ckv`` of a per-tensor cache has
    shape (1, Hckv), of which the kernel reads the first element.

    Raises
    ------
    ValueError, CannError
        As :func:`mla_prolog_v3`.
    """
    given = {n: v for n, v in locals().items() if n not in _NO_OPERANDS}
    sizes = _Sizes.of(token_x, weight_dq, weight_uk, rope_cos)
    shape = (*sizes.tokens, sizes.heads)
    quantised_query = _dtype_name(token_x) == _dtype_name(kv_cache) == "INT8"
    scale_q = None
    with OperatorCall("aclnnMlaPrologV2WeightNz", stream) as call:
        call.give(given, packed=_PACKED)
        q = call.output("query", query, (*shape, sizes.latent_key), "INT8" if quantised_query else "BF16")
        rope = call.output("query_rope", query_rope, (*shape, sizes.rope), "BF16")
        if quantised_query:
            scale_shape = (sizes.count, sizes.heads, 1)
            scale_q = call.output("dequant_scale_q_nope", dequant_scale_q_nope, scale_shape, "FP32")
        call.run()
    return MlaPrologResult(q, rope, kv_cache, kr_cache, scale_q)


def mla_prolog_v1(
    token_x: Operand,
    weight_dq: Operand,
    weight_uq_qr: Operand,
    weight_uk: Operand,
    weight_dkv_kr: Operand,
    rmsnorm_gamma_cq: Operand,
    rmsnorm_gamma_ckv: Operand,
    rope_sin: Operand,
    rope_cos: Operand,
    cache_index: Operand,
    kv_cache: Operand,
    kr_cache: Operand,
    *,
    stream: Stream,
    cache_mode: str = "PA_BSND",
    dequant_scale_x: Operand | None = None,
    dequant_scale_w_dq: Operand | None = None,
    dequant_scale_w_uq_qr: Operand | None = None,
    dequant_scale_w_dkv_kr: Operand | None = None,
    quant_scale_ckv: Operand | None = None,
    quant_scale_ckr: Operand | None = None,
    smooth_scales_cq: Operand | None = None,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    query: Tensor | None = None,
    query_rope: Tensor | None = None,
) -> MlaPrologResult:
    """Call ``aclnnMlaProlog`` on a stream. Not on Ascend950; deprecated by CANN in favour of version 3.

    As :func:`mla_prolog_v2`, without a quantised query.
    """
    given = {n: v for n, v in locals().items() if n not in _NO_OPERANDS}
    sizes = _Sizes.of(token_x, weight_dq, weight_uk, rope_cos)
    shape = (*sizes.tokens, sizes.heads)
    with OperatorCall("aclnnMlaProlog", stream) as call:
        call.give(given, packed=_PACKED)
        q = call.output("query", query, (*shape, sizes.latent_key), "BF16")
        rope = call.output("query_rope", query_rope, (*shape, sizes.rope), "BF16")
        call.run()
    return MlaPrologResult(q, rope, kv_cache, kr_cache)


def _dtype_name(operand: Operand) -> str:
    return operand.dtype.name if isinstance(operand, Tensor) else dtype(operand.dtype).name


__all__ = ["SCENARIOS", "MlaPrologResult", "mla_prolog_v1", "mla_prolog_v2", "mla_prolog_v3", "pack_weight"]
