"""The numbers of the other six operators: the simulator's kernels against the reference.

Neither was written with a look at the other, so where they agree, both have read the specification alike.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cann_mla.validate.cases import Case, load
from cann_mla.validate.run import run_alone
from cann_mla.validate.verify import Options

CASES = list(load(Path(__file__).parents[1] / "data/atb/operators.jsonl"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_simulator_agrees_with_the_reference(case: Case) -> None:
    simulated, outputs = run_alone(case, Options(via="sim"))
    referred, golden = run_alone(case, Options(via="reference"))
    assert (simulated["verdict"], referred["verdict"]) == ("pass", "pass"), (simulated["message"], referred["message"])
    assert set(outputs) == set(golden) != set()
    for name, array in outputs.items():
        wanted = golden[name].astype(np.float64)
        distance = np.abs(array.astype(np.float64) - wanted)
        if case.op in ("AtbPagedCacheLoad", "AtbFusedAddTopkDiv"):
            limit = 1e-6 * np.abs(wanted)
        elif array.dtype == np.int8:  # quantised: the other side of a tie
            limit = np.ones(wanted.shape)
        else:
            limit = 2.0**-7 + 2.0**-7 * np.abs(wanted)
        assert np.isfinite(wanted).all()
        assert np.abs(wanted).max() > 0
        assert (distance <= limit).all(), name
