"""The chains of aclnn operators that make up ``mla_prolog_quant`` and ``mla_prolog``.

The fused kernel keeps c, the normalised query, and the second product in FP32. aclnnDynamicQuant takes nothing wider
than 16 bits, and aclnnQuantMatmulV5 gives nothing wider with scales; so the chain in FP32 quantises with elementary
operators, takes the second product as INT32, and scales it itself. The chain in 16 bits saves what it can of c's
precision by the order of its steps: c is normalised without gamma, so that FP16 holds it whatever gamma is, and
aclnnDynamicQuant multiplies gamma in, in FP32, as its smooth scales.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cann_mla.dtypes import dtype
from cann_mla.libraries import load
from cann_mla.ops.mla_prolog_quant_checks import Sizes
from cann_mla.ops.sequence import OperatorSequence, Slot
from cann_mla.tensor import Tensor

EPSILON = 1e-6
_LARGEST_INT8 = 127
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

    def add_quantised(self, chain: str, product_dtype: str) -> None:
        """The calls of ``mla_prolog_quant``; the first products leave the matrix unit in FP32 or BF16."""
        if chain == "FP32":
            self._quantise_fp32(self._query_fp32(product_dtype))
            self._finish_fp32(self._product_fp32())
        else:
            scale = self._quantise_16_bit(product_dtype)
            self._finish_heads(self._product_bf16(scale))
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

    # ---- the chain in FP32 ----

    def _query_fp32(self, product_dtype: str) -> Slot:
        """c = RmsNorm(x wq_a) * gamma_cq."""
        s = self._sizes
        c = self.steps.intermediate((s.tokens, s.latent), "FP32")
        a = self._product("token_x", "wq_a", s.latent, product_dtype)
        self._norm(self._cast(a, "FP32"), self._cast(self._slots["gamma_cq"], "FP32"), c)
        return c

    def _quantise_fp32(self, c: Slot) -> None:
        """Every token times 127 / max|c|, rounded; the reciprocal of that is the scale that is handed out."""
        s, at = self._sizes, self._slots
        magnitude = self.steps.intermediate((s.tokens, s.latent), "FP32")
        largest, factor = (self.steps.intermediate((s.tokens, 1), "FP32") for _ in range(2))
        self.steps.add("aclnnAbs", self=c, out=magnitude)
        self.steps.add("aclnnAmax", self=magnitude, dim=[-1], keepDim=True, out=largest)
        self.steps.add("aclnnDiv", self=self._constant(_LARGEST_INT8, (1, 1), "FP32"), other=largest, out=factor)
        self.steps.add("aclnnDiv", self=self._constant(1, (1, 1), "FP32"), other=factor, out=at["qr_scale_out"])
        self.steps.add(
            "aclnnAscendQuantV3",
            x=c,
            scale=factor.view(s.tokens),
            sqrtMode=False,
            roundMode="round",
            dstType=dtype("INT8").code,
            axis=0,
            y=at["qr_out"],
        )

    def _product_fp32(self) -> Slot:
        """qr_out wq_b, exact, times the scale of the token and of the column, in this order."""
        s, at = self._sizes, self._slots
        columns = s.heads * s.head
        weight_scale = at["wq_b_scale"].view(columns)
        product = self._quantised_product("INT32", weight_scale, None)
        f = self.steps.intermediate((s.tokens, columns), "FP32")
        self.steps.add("aclnnMul", self=product, other=at["qr_scale_out"], out=f)
        self.steps.add("aclnnInplaceMul", selfRef=f, other=weight_scale)
        return f

    def _finish_fp32(self, f: Slot) -> None:
        """Second norm, by head and without weight, and rotation of what is left of it in BF16."""
        s, q = self._sizes, self._slots["q_out"]
        rows = (s.tokens * s.heads, s.head)
        normed = self.steps.intermediate(rows, "FP32")
        # Nobody reads the reciprocal roots; q_out has room for them until the cast.
        self._norm(f.view(*rows), self._constant(1, (s.head,), "FP32"), normed, q.scratch((rows[0], 1), "FP32"))
        self.steps.add("aclnnCast", self=normed, dtype=dtype("BF16").code, out=q.view(*rows))
        self._rotate_heads()

    # ---- the chain in 16 bits ----

    def _quantise_16_bit(self, product_dtype: str) -> Slot:
        """c without gamma in 16 bits, quantised with it; gives the scales."""
        s, at = self._sizes, self._slots
        narrow = "FP16" if product_dtype == "FP32" else "BF16"
        c = self.steps.intermediate((s.tokens, s.latent), product_dtype)
        a = self._product("token_x", "wq_a", s.latent, product_dtype)
        self._norm(a, self._constant(1, (s.latent,), product_dtype), c)
        scale = at["qr_scale_out"].view(s.tokens)
        self.steps.add(
            "aclnnDynamicQuant",
            x=self._cast(c, narrow),
            smoothScalesOptional=self._cast(at["gamma_cq"], narrow),
            yOut=at["qr_out"],
            scaleOut=scale,
        )
        return scale

    def _product_bf16(self, scale: Slot) -> Slot:
        """qr_out wq_b with both scales."""
        columns = self._sizes.heads * self._sizes.head
        return self._quantised_product("BF16", self._slots["wq_b_scale"].view(columns), scale)

    # ---- what they share ----

    def _quantised_product(self, element: str, weight_scale: Slot, scale: Slot | None) -> Slot:
        """V5 of the operator, where CANN has it; V4 does the same under other names."""
        out = self.steps.intermediate((self._sizes.tokens, weight_scale.layout.shape[0]), element)
        shared: dict[str, Any] = {"x1": self._slots["qr_out"], "x2": self._slots["wq_b"], "out": out}
        shared |= {"transposeX1": False, "transposeX2": False}
        if load().has("aclnnQuantMatmulV5"):
            self.steps.add("aclnnQuantMatmulV5", x1Scale=scale, x2Scale=weight_scale, groupSize=0, **shared)
        else:
            self.steps.add("aclnnQuantMatmulV4", pertokenScaleOptional=scale, scale=weight_scale, **shared)
        return out

    def _finish_heads(self, f: Slot) -> None:
        """Second norm, by head and without weight, and rotation."""
        s, q = self._sizes, self._slots["q_out"]
        rows = (s.tokens * s.heads, s.head)
        self._norm(f.view(*rows), self._constant(1, (s.head,), "BF16"), q.view(*rows))
        self._rotate_heads()

    def _rotate_heads(self) -> None:
        """Heads stand on the second axis, over which the operator repeats the cosines of a token."""
        s = self._sizes
        self._rotate(self._slots["q_out"].view(s.tokens, s.heads, 1, s.head))

    def _norm(self, x: Slot, gamma: Slot, y: Slot, rstd: Slot | None = None) -> None:
        rstd = rstd or self.steps.intermediate((x.layout.shape[0], 1), "FP32")
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

    def _constant(self, value: float, shape: tuple[int, ...], element: str) -> Slot:
        array = np.full(shape, value, dtype(element).numpy)
        return self.steps.operand(Tensor.from_numpy(array, device=self._device))
