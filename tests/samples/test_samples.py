"""Every sample runs as a person would run it, breaks no rule of CANN, and says that it worked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples"

LAST_LINE = {
    "mla_prolog_v3.py": ("Ascend910B", r"both ways agree in all 524288 elements of queryOut"),
    "mla_prolog_v3_partial_quant.py": (
        "Ascend910B",
        r"both ways agree in all 524288 elements of queryOut; 8 cache rows were written",
    ),
    "mla_prolog_v3_full_quant_950.py": ("Ascend950", r"scales of the query from 0\.\d+ to 0\.\d+"),
    "mla_prolog_paged_decode.py": ("Ascend910B", r"75 rows of 192 written, all within 0\.0\d+ of plain NumPy"),
    "mla_prolog_quant.py": (
        "Ascend910B",
        r"mla_prolog: q_out within 0\.0\d+ and kv_out within 0\.0\d+ of plain NumPy",
    ),
    "mla_prolog_by_hand.py": (
        "Ascend910B",
        r"36864 elements of query, and both caches, within 0\.0\d+ of the fused operator",
    ),
    "ring_mla.py": (
        "Ascend910B",
        r"both ways agree in all 409600 elements of output and 3200 of softmaxLse",
    ),
    "mla.py": (
        "Ascend910B",
        r"both ways agree in all 262144 elements of attenOut with an INT8 cache and 2097152 with FP16",
    ),
    "mla_preprocess.py": (
        "Ascend910B",
        r"both ways agree in all 262144 elements of qOut0; 4 cache rows were written",
    ),
    "mla_decode.py": ("Ascend910B", r"36864 elements within 0\.0\d+ of plain NumPy"),
    "fused_infer_attention_v4_gqa.py": ("Ascend910B", r"256 elements within 0\.00\d+ of plain NumPy"),
    "fused_infer_attention_v4_gqa_antiquant.py": ("Ascend910_93", r"256 elements within 0\.00\d+ of plain NumPy"),
    "fused_infer_attention_v4_gqa_postquant.py": ("Ascend910B", r"256 elements within [01]\.0+ of plain NumPy"),
    "fused_infer_attention_v4_mla.py": ("Ascend910B", r"1024 elements within 0\.00\d+ of plain NumPy"),
    "fused_infer_attention_v5.py": ("Ascend950", r"64 elements within 0\.00\d+ of plain NumPy"),
    "fused_infer_attention_v5_antiquant.py": ("Ascend950", r"64 elements within 0\.00\d+ of plain NumPy"),
    "fused_infer_attention_v5_antiquant_mxfp4.py": ("Ascend950", r"128 elements within 0\.00\d+ of plain NumPy"),
    "fused_infer_attention_v5_full_quant.py": ("Ascend950", r"8192 elements within 0\.[012]\d+ of plain NumPy"),
}


def run(name: str, soc: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SAMPLES / name)],
        env={**os.environ, "CANN_MLA_SIM_SOC": soc, "CANN_MLA_BACKEND": "sim", "CANN_MLA_SIM_STRICT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("name", LAST_LINE)
def test_sample(name: str) -> None:
    soc, pattern = LAST_LINE[name]
    done = run(name, soc)
    assert (done.returncode, done.stderr) == (0, "cann_mla simulator: 0 findings\n")
    assert re.fullmatch(pattern, done.stdout.strip().splitlines()[-1])


def test_a_sample_for_another_product_says_so() -> None:
    done = run("mla_prolog_v3_full_quant_950.py", "Ascend910_93")
    assert done.returncode == 1
    assert "needs an Ascend950, not Ascend910_9382" in done.stderr
