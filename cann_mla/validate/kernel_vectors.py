"""Numbers of a kernel behind ATB: declare its operands as the operation's table wants them.

ATB's goldens work on memory. A published vector of one (a case with `expected_npz`) stores an NZ cache in memory order
under its 4-D shape and names no format for it, since the kernel asks for none. The operation in front of the kernel
does ask: its table (``ops_configs/atb_ops_info.ini``) lists caches of ``cacheMode`` 2 and 3 as FRACTAL_NZ only, and
ATB's own test of the operation casts them to format 29 before the call. The same table lists the two scales of an INT8
cache as FP16 where a token has a scale of its own, while the kernel for BF16 input reads BF16 from them.

So for such a case, and for no other, the tensor objects say what the table lists, over the very bytes of the vector.
A case without expected numbers is about the status: it is declared as it is written, and refused as ATB refuses it.
"""

from __future__ import annotations

from dataclasses import replace

from cann_mla.validate.cases import Case, TensorSpec

_NZ_CACHES = {
    "AtbMLA": ("ctKV", "kRope"),
    "AtbMLAPreprocess": ("kvCache", "kvCacheRope", "kvCacheOut0", "kvCacheOut1"),
}
_NZ_MODES = (2, 3)
_INT8_MODE, _TOKEN_SCALES = 2, 1  # cacheMode, quantMode


def declared(case: Case, name: str, spec: TensorSpec) -> TensorSpec:
    """What the tensor object of an operand says; the operand's bytes stay what they are."""
    if case.expected_npz is None or case.status != 0 or case.attrs.get("cacheMode") not in _NZ_MODES:
        return spec
    if name in _NZ_CACHES.get(case.op, ()) and spec.format == "ND" and len(spec.shape) == 4:
        return replace(spec, format="FRACTAL_NZ")
    per_token_int8 = case.attrs["cacheMode"] == _INT8_MODE and case.attrs.get("quantMode") == _TOKEN_SCALES
    if case.op == "AtbMLAPreprocess" and per_token_int8 and name in ("ctkvScale", "qNopeScale"):
        return replace(spec, dtype="FP16" if spec.dtype == "BF16" else spec.dtype)
    return spec


__all__ = ["declared"]
