"""The oracle: operators in plain NumPy, written from the specification and from nothing else.

Nothing here touches a device or a library; the package imports only :mod:`cann_mla.dtypes` and
:mod:`cann_mla.formats`. Every function is pure: operands are not modified, updated caches are returned.

:func:`evaluate` reaches every operator by its C symbol. In Python's own terms they are
``mla_prolog.mla_prolog_v3``, ``mla_prolog_versions.mla_prolog_v1`` and ``mla_prolog_v2``,
``mla_prolog_quant.mla_prolog_quant`` and ``mla_prolog``, and the functions of ``primitives_*``,
``fused_infer_attention_score`` and ``ring_attention_update``; of ATB ``ring_mla.ring_mla``, ``atb_mla.mla``,
``atb_mla_prefill.mla_prefill``, ``atb_mla_preprocess.mla_preprocess`` and the functions of the other ``atb_*``.
"""

from cann_mla.reference.evaluate import evaluate

__all__ = ["evaluate"]
