"""The chains of aclnn operators that make up ``mla_prolog_quant`` and ``mla_prolog``.

The fused kernel keeps c, the normalised query, and the second product in FP32. Operators of aclnn pass them on in 16
bits: DynamicQuant takes nothing wider, and QuantMatmul gives nothing wider with scales. What is left of c's precision
is saved by the order of steps: it is normalised without gamma, so that FP16 holds it whatever gamma is, and
DynamicQuant multiplies gamma in, in FP32, as its smooth scales.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cann_mla.dtypes import dtype
from cann_mla.libraries import load
from cann_mla.ops.mla_prolog_quant_checks import Sizes
from cann_mla.ops.sequence import OperatorSequence, Slot
from cann_mla.tensor import Tensor

EPSILON = 1e-6
_INTERLEAVE = 1  # rotary mode: pairs of neighbours, which stay neighbours


class Chain:
    """Adds the calls of one of the two operators to a sequence.

    Parameters
    ----------
    steps : OperatorSequence
    slots : mapping of str to Slot
        Inputs and outputs by their names.
    sizes : Sizes
    device : int or None
        Where the constants go.
    """

    def __init__(self, steps: OperatorSequence, slots: Mapping[str, Slot], sizes: Sizes, device: int | None) -> None:
        self.steps = steps
        self._slots = slots
        self._sizes = sizes
        self._device = device

    def add_quantised(self, product_dtype: str) -> None:
        """The calls of ``mla_prolog_quant``; the first products leave the matrix unit in FP32 or BF16."""
        s, at = self._sizes, self._slots
        narrow = "FP16" if product_dtype == "FP32" else "BF16"
        c = self.steps.intermediate((s.tokens, s.latent), product_dtype)
        self._norm(self._product("token_x", "wq_a", s.latent, product_dtype), self._ones(s.latent, product_dtype), c)
        scale = at["qr_scale_out"].view(s.tokens)
        self.steps.add(
            "aclnnDynamicQuant",
            x=self._cast(c, narrow),
            smoothScalesOptional=self._cast(at["gamma_cq"], narrow),
            yOut=at["qr_out"],
            scaleOut=scale,
        )
        self._finish_heads(self._quantised_product(at["qr_out"], scale))
        self._add_key(product_dtype)

    def add_plain(self) -> None:
        """The calls of ``mla_prolog``."""
        s, at = self._sizes, self._slots
        self._norm(self._product("token_x", "wq_a", s.latent, "BF16"), at["gamma_cq"], at["qr_out"])
        self._finish_heads(self._product("qr_out", "wq_b", s.heads * s.head, "BF16"))
        self._add_key("BF16")

    def _add_key(self, product_dtype: str) -> None:
        s, out = self._sizes, self._slots["kv_out"]
        gamma = self._cast(self._slots["gamma_ckv"], product_dtype)
        k = self._product("token_x", "wkv", s.head, product_dtype)
        if product_dtype == "BF16":
            self._norm(k, gamma, out)
        else:
            wide = self.steps.intermediate((s.tokens, s.head), product_dtype)
            self._norm(k, gamma, wide)
            self.steps.add("aclnnCast", self=wide, dtype=dtype("BF16").code, out=out)
        self._rotate(out.view(s.tokens, 1, 1, s.head))

    def _product(self, x: str, w: str, columns: int, element: str) -> Slot:
        weight = self._slots[w]
        symbol = "aclnnMatmulWeightNz" if weight.layout.format == "FRACTAL_NZ" else "aclnnMm"
        out = self.steps.intermediate((self._sizes.tokens, columns), element)
        self.steps.add(symbol, self=self._slots[x], mat2=weight, out=out, cubeMathType=0)
        return out

    def _quantised_product(self, qr: Slot, scale: Slot) -> Slot:
        """V5 of the operator, where CANN has it; V4 does the same under other names."""
        columns = self._sizes.heads * self._sizes.head
        out = self.steps.intermediate((self._sizes.tokens, columns), "BF16")
        weight_scale = self._slots["wq_b_scale"].view(columns)
        shared = {"x1": qr, "x2": self._slots["wq_b"], "transposeX1": False, "transposeX2": False, "out": out}
        if load().has("aclnnQuantMatmulV5"):
            self.steps.add("aclnnQuantMatmulV5", x1Scale=scale, x2Scale=weight_scale, groupSize=0, **shared)
        else:
            self.steps.add("aclnnQuantMatmulV4", pertokenScaleOptional=scale, scale=weight_scale, **shared)
        return out

    def _finish_heads(self, f: Slot) -> None:
        """Second norm, by head and without weight, and rotation."""
        s, q = self._sizes, self._slots["q_out"]
        self._norm(f.view(s.tokens * s.heads, s.head), self._ones(s.head, "BF16"), q.view(s.tokens * s.heads, s.head))
        # Heads stand on the second axis, over which the operator repeats the cosines of a token.
        self._rotate(q.view(s.tokens, s.heads, 1, s.head))

    def _norm(self, x: Slot, gamma: Slot, y: Slot) -> None:
        rstd = self.steps.intermediate((x.layout.shape[0], 1), "FP32")
        self.steps.add("aclnnRmsNorm", x=x, gamma=gamma, epsilon=EPSILON, yOut=y, rstdOut=rstd)

    def _rotate(self, x: Slot) -> None:
        s = self._sizes
        cos, sin = (self._slots[name].view(s.tokens, 1, 1, s.rope) for name in ("rope_cos", "rope_sin"))
        part = [s.head - s.rope, s.head]
        self.steps.add(
            "aclnnInplacePartialRotaryMul", xRef=x, cos=cos, sin=sin, rotary_mode=_INTERLEAVE, partialSlice=part
        )

    def _cast(self, x: Slot, element: str) -> Slot:
        if x.layout.dtype is dtype(element):
            return x
        out = self.steps.intermediate(x.layout.shape, element)
        self.steps.add("aclnnCast", self=x, dtype=dtype(element).code, out=out)
        return out

    def _ones(self, size: int, element: str) -> Slot:
        return self.steps.operand(Tensor.from_numpy(np.ones(size, dtype(element).numpy), device=self._device))
