"""What holds for all tests: no module leaves the simulator set to another chip for the next one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cann_mla import libraries


@pytest.fixture(scope="module", autouse=True)
def _chip_of_the_module() -> Iterator[None]:
    yield
    library = libraries._loaded
    if library is not None and library.backend == "sim":
        chip = os.environ.get("CANN_MLA_SIM_SOC") or "Ascend910B"
        assert library.cannMlaSimSetSoc(chip.encode()) == 0
