"""The prolog of PyPTO's ``mla_prolog_quant`` and ``mla_prolog``, composed of aclnn operators on one stream.

For every token x, with 64 heads of 512 channels and epsilon 1e-6::

    c    = RmsNorm(x wq_a) * gamma_cq              quantised per token: qr_out, qr_scale_out
    q    = RmsNorm((qr_out wq_b) * scales)         by head, its last 64 channels rotated by pairs
    kv   = RmsNorm(x wkv) * gamma_ckv              its last 64 channels rotated by pairs

How far the composition is from the operator
--------------------------------------------
The fused kernel keeps c and the second product in FP32, and so does the default chain: c is quantised by elementary
aclnn operators, the second product comes as INT32 and is scaled in FP32 (:mod:`cann_mla.ops.mla_prolog_quant_chain`).
Measured between the two references (PyPTO's operator; the chain of primitives) with data in the ranges of the published
test, 192 tokens from three seeds; weights in ND and in FRACTAL_NZ give the same bits:

============ ============ ======================== ===================================== =============================
output       bit-equal    largest difference       root mean square of the difference    outside the published tolerance
============ ============ ======================== ===================================== =============================
q_out        99.8 %       0.016 (values up to 5)   0.00016                               0.05 % of 0.5 % allowed
kv_out       100 %        0                        0                                     0
qr_out       99.9995 %    1                        0.002                                 0
qr_scale_out 48 %         7.5e-9 (3e-7 of it)      2.2e-9                                0
============ ============ ======================== ===================================== =============================

What is left comes from sums in another order. It moves an element of c over the boundary between two integers in about
one token of two hundred, and one different integer of the 1024 takes about 10 % of that token's q_out, the small
elements, out of the tolerance (1e-4 + 2^-7 of the value); in all other tokens five elements of q_out in a million
differ, by one unit in the last place. So with very few tokens the tolerance can be missed by chance, as it can between
any two implementations that add in different orders.

``chain="16-bit"`` has fewer calls, which read and write much less: the second product leaves the matrix unit scaled and
in BF16, and c is quantised from FP16 (exact for gamma_cq from 2^-14 to 65504). ``product_dtype="BF16"`` is for versions
of CANN whose products of BF16 cannot give FP32. Both break the published tolerance:

============================================ ============== ============== ==============
what differs                                 16-bit, FP32   FP32, BF16     16-bit, BF16
============================================ ============== ============== ==============
q_out outside the published tolerance        19 %           43 %           48 %
q_out, root mean square                      0.0037         0.0069         0.0081
q_out, largest                               0.031          0.047          0.055
q_out outside 2^-6 + 2^-6 of the value       2 in a million 0.3 %          0.8 %
kv_out outside the published tolerance       0              0.8 %          0.8 %
elements of qr_out that differ (by 1)        0.42 %         3.4 %          4.7 %
qr_scale_out, largest relative difference    0.05 %         0.5 %          0.6 %
============================================ ============== ============== ==============

The chain of the plain operator has PyPTO's own rounding points: the two references give the same bits in all outputs.

All chains need aclnnInplacePartialRotaryMul, which CANN has since 9.1 and which nothing older replaces: of the rotary
operators of 8.5, those that keep pairs together take less than 1000 heads of all tokens, and none takes part of a head.

Source: the PyPTO kernel of the operator in CANN's recipes; CANN's pages of the aclnn operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any

import numpy as np

from cann_mla.checks import instance
from cann_mla.libraries import load
from cann_mla.ops import mla_prolog_quant_pypto as pypto
from cann_mla.ops.call import Operand
from cann_mla.ops.mla_prolog_quant_chain import Chain
from cann_mla.ops.mla_prolog_quant_checks import Described, check
from cann_mla.ops.sequence import OperatorSequence
from cann_mla.runtime.stream import Stream
from cann_mla.tensor import Tensor


@dataclass(frozen=True)
class MlaPrologQuantResult:
    """Outputs of one call.

    Attributes
    ----------
    q_out : Tensor of BF16, shape (t, 64, 512)
    kv_out : Tensor of BF16, shape (t, 512)
    qr_out : Tensor, shape (t, 1024)
        INT8; BF16 from the plain operator.
    qr_scale_out : Tensor of FP32, shape (t, 1), or None
        Dequantisation scale of `qr_out`.

    Notes
    -----
    The tensors hold their values when the stream has passed the call. With ``via="pypto"`` they are torch tensors.
    """

    q_out: Any
    kv_out: Any
    qr_out: Any
    qr_scale_out: Any = None

    def close(self) -> None:
        """Close the outputs."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                value.close()

    def __enter__(self) -> MlaPrologQuantResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MlaPrologQuantPlan:
    """The composition, prepared once for a number of tokens and run many times.

    Parameters
    ----------
    token_x : Tensor of BF16, shape (t, 4096)
    wq_a : Tensor of BF16, shape (4096, 1024)
    wq_b : Tensor, shape (1024, 32768)
        INT8: the quantised operator. BF16: the plain one, which has no `wq_b_scale`.
    wkv : Tensor of BF16, shape (4096, 512)
    rope_cos, rope_sin : Tensor of BF16, shape (t, 64)
    gamma_cq, gamma_ckv : Tensor of BF16, shapes (1024,), (512,)
    wq_b_scale : Tensor of FP32, shape (32768, 1), optional
    outputs : mapping of str to Tensor, optional
        Where to write; what is not given is made.
    any_sizes : bool
        Allow other sizes than those above, which are the PyPTO operator's only ones. They have to fit each other;
        a head has at most 1024 channels.
    chain : {"FP32", "16-bit"}
        What the quantised operator is composed of. ``FP32``: the operator's own rounding points. ``16-bit``: fewer
        and cheaper calls, whose q_out does not keep the published tolerance. See the module's text.
    product_dtype : {"FP32", "BF16"}
        Type in which the first products leave the matrix unit in the quantised operator. See the module's text.

    Attributes
    ----------
    outputs : MlaPrologQuantResult
    sizes : Sizes
    steps : OperatorSequence
        The calls.

    Raises
    ------
    ValueError
        If an operand breaks a constraint of the PyPTO operator, or the product has no quantised one.
    CannError, SymbolNotFoundError
        If CANN refuses a primitive or does not have it.

    Notes
    -----
    The three weights may be in FRACTAL_NZ. All operands are on one device. Runs are queued on one stream at a time
    (they share buffers), by the thread that made the plan; nothing in a run waits. Tensors given stay the caller's,
    and may be closed; their memory is kept. New outputs belong to whoever takes :attr:`outputs`, also when the plan
    is closed.
    """

    def __init__(
        self,
        *,
        token_x: Tensor,
        wq_a: Tensor,
        wq_b: Tensor,
        wkv: Tensor,
        rope_cos: Tensor,
        rope_sin: Tensor,
        gamma_cq: Tensor,
        gamma_ckv: Tensor,
        wq_b_scale: Tensor | None = None,
        outputs: Mapping[str, Tensor] | None = None,
        any_sizes: bool = False,
        chain: str = "FP32",
        product_dtype: str = "FP32",
    ) -> None:
        if chain not in ("FP32", "16-bit"):
            raise ValueError(f"chain is {chain!r}; allowed are 'FP32' and '16-bit'")
        if product_dtype not in ("FP32", "BF16"):
            raise ValueError(f"product_dtype is {product_dtype!r}; allowed are 'FP32' and 'BF16'")
        inputs = {
            "token_x": token_x, "wq_a": wq_a, "wq_b": wq_b, "wkv": wkv, "rope_cos": rope_cos, "rope_sin": rope_sin,
            "gamma_cq": gamma_cq, "gamma_ckv": gamma_ckv,
        }  # fmt: skip
        if wq_b_scale is not None:
            inputs["wq_b_scale"] = wq_b_scale
        quantised = wq_b_scale is not None
        operands = {**inputs, **(outputs or {})}
        self.sizes = check(
            {name: Described.of(tensor) for name, tensor in operands.items()},
            quantised=quantised,
            any_sizes=any_sizes,
            product=load().product,
        )
        for name, (shape, element) in self.sizes.outputs(quantised=quantised).items():
            if name not in operands:
                operands[name] = Tensor.empty(shape, element, device=token_x.device)
        self.steps = OperatorSequence(token_x.device)
        self._slots = {name: self.steps.operand(tensor) for name, tensor in operands.items()}
        calls = Chain(self.steps, self._slots, self.sizes, token_x.device)
        if quantised:
            calls.add_quantised(chain, product_dtype)
        else:
            calls.add_plain()
        self.steps.prepare()
        self.outputs = MlaPrologQuantResult(**{n: t for n, t in operands.items() if n not in inputs})

    @property
    def workspace_size(self) -> int:
        """Bytes of the workspace that all calls share; the plan has it itself."""
        return self.steps.workspace_size

    def run(self, stream: Stream) -> MlaPrologQuantResult:
        """Queue all calls; returns :attr:`outputs` before they hold their values."""
        self.steps.run(stream)
        return self.outputs

    def replace(self, **tensors: Tensor) -> None:
        """Use other inputs or outputs of the same layout from the next run on: ``plan.replace(token_x=other)``."""
        for name, tensor in tensors.items():
            if name not in self._slots:
                raise ValueError(f"there is no operand {name}; there are {', '.join(self._slots)}")
            self.steps.replace(self._slots[name], tensor)
        given = {name: tensor for name, tensor in tensors.items() if hasattr(self.outputs, name)}
        kept = {f.name: getattr(self.outputs, f.name) for f in fields(self.outputs)}
        self.outputs = MlaPrologQuantResult(**{**kept, **given})

    def close(self) -> None:
        """Close the calls and their buffers, not the outputs. A second call does nothing."""
        self.steps.close()

    def __enter__(self) -> MlaPrologQuantPlan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def mla_prolog_quant(
    token_x: Operand,
    wq_a: Operand,
    wq_b: Operand,
    wkv: Operand,
    rope_cos: Operand,
    rope_sin: Operand,
    gamma_cq: Operand,
    gamma_ckv: Operand,
    wq_b_scale: Operand,
    *,
    stream: Stream | None = None,
    via: str = "aclnn",
    any_sizes: bool = False,
    chain: str = "FP32",
    product_dtype: str = "FP32",
) -> MlaPrologQuantResult:
    """The quantised prolog, once. :class:`MlaPrologQuantPlan` runs it many times, and describes the parameters.

    Parameters
    ----------
    token_x, wq_a, wq_b, wkv, rope_cos, rope_sin, gamma_cq, gamma_ckv, wq_b_scale
        The operands of ``torch.ops.pypto.mla_prolog_quant``, in its order. Tensors, or arrays, which are copied to
        the stream's device.
    stream : Stream
        The call returns when the work is queued there. Not for ``via="pypto"``, which uses torch's.
    via : {"aclnn", "pypto"}
        ``aclnn``: the composition, on any CANN and on the simulator. ``pypto``: the real operator, where torch,
        torch_npu and PyPTO are installed; operands are then torch tensors on the NPU, and so are the outputs.
    any_sizes, chain, product_dtype
        As for the plan; not for ``via="pypto"``.

    Returns
    -------
    MlaPrologQuantResult

    Raises
    ------
    ValueError, CannError, SymbolNotFoundError
        As for the plan.
    PyptoNotFoundError
        If ``via="pypto"`` and something is not installed; says what.
    """
    operands = {
        "token_x": token_x, "wq_a": wq_a, "wq_b": wq_b, "wkv": wkv, "rope_cos": rope_cos, "rope_sin": rope_sin,
        "gamma_cq": gamma_cq, "gamma_ckv": gamma_ckv, "wq_b_scale": wq_b_scale,
    }  # fmt: skip
    options = {"any_sizes": any_sizes, "chain": chain, "product_dtype": product_dtype}
    return _call("mla_prolog_quant", operands, stream, via, options)


def mla_prolog(
    token_x: Operand,
    wq_a: Operand,
    wq_b: Operand,
    wkv: Operand,
    rope_cos: Operand,
    rope_sin: Operand,
    gamma_cq: Operand,
    gamma_ckv: Operand,
    *,
    stream: Stream | None = None,
    via: str = "aclnn",
    any_sizes: bool = False,
) -> MlaPrologQuantResult:
    """The prolog without quantisation, once; on Ascend950 too.

    Everything as for :func:`mla_prolog_quant`, with `wq_b` in BF16; ``qr_out`` is BF16, ``qr_scale_out`` None.
    """
    operands = {
        "token_x": token_x, "wq_a": wq_a, "wq_b": wq_b, "wkv": wkv, "rope_cos": rope_cos, "rope_sin": rope_sin,
        "gamma_cq": gamma_cq, "gamma_ckv": gamma_ckv,
    }  # fmt: skip
    return _call("mla_prolog", operands, stream, via, {"any_sizes": any_sizes})


def _call(
    name: str, operands: dict[str, Any], stream: Stream | None, via: str, options: dict[str, Any]
) -> MlaPrologQuantResult:
    if via == "pypto":
        return MlaPrologQuantResult(*pypto.call(name, operands))
    if via != "aclnn":
        raise ValueError(f"via is {via!r}; allowed are 'aclnn' and 'pypto'")
    if stream is None:
        raise TypeError(f'{name} needs a stream to be queued on; only via="pypto" goes without')
    instance("stream", stream, Stream)
    with ExitStack() as inputs:
        tensors: dict[str, Any] = {n: _on_device(n, value, stream, inputs) for n, value in operands.items()}
        with MlaPrologQuantPlan(**tensors, **options) as plan:
            return plan.run(stream)


def _on_device(name: str, value: Operand, stream: Stream, inputs: ExitStack) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a Tensor or a NumPy array, not {type(value).__name__}")
    return inputs.enter_context(Tensor.from_numpy(value, device=stream.device, stream=stream))
