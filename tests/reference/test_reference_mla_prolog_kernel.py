"""The query path against numbers of the device kernel itself.

The data come from the upstream A2 kernel, executed on a CPU with its instructions emulated: 24 tokens of one
head, INT8 throughout, query quantised per token and head. They start at queryNormOut, so that the file stays
small; products of INT8 are exact, and everything after them is a fixed sequence of roundings.
"""

from pathlib import Path

import numpy as np

from cann_mla.dtypes import from_bits
from cann_mla.reference.mla_prolog_modes import Modes
from cann_mla.reference.mla_prolog_steps import Latent, absorb_head, project_latent, rotate_query
from cann_mla.reference.rounding import widen

DATA = Path(__file__).parents[1] / "data" / "reference" / "mla_prolog_kernel_query.npz"
NOPE = 128


def test_query_is_bit_equal_to_the_kernel() -> None:
    with np.load(DATA) as held:
        d = dict(held)
    modes = Modes(2, 1, "Ascend910_93", "device")
    latent = Latent(d["query_norm"], d["query_norm"], d["dequant_scale_q_norm"])
    u = project_latent(latent, d["weight_uq_qr"], d["dequant_scale_w_uq_qr"], modes)
    query, scale = absorb_head(u[:, :NOPE], from_bits(d["weight_uk"], "BF16"), modes)
    assert scale is not None
    np.testing.assert_array_equal(query, d["query"])
    np.testing.assert_array_equal(scale, d["dequant_scale_q_nope"])
    cos, sin = (widen(from_bits(d[name], "BF16")) for name in ("rope_cos", "rope_sin"))
    rotated = rotate_query(u[:, None, NOPE:], cos, sin, scale[:, None], d["quant_scale_ckv"], modes)
    np.testing.assert_array_equal(rotated[:, 0].view(np.uint16), d["query_rope"])
