"""What holds for all tests: a device and a stream, and no module leaves the simulator set to another chip."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import cann_mla
from cann_mla import libraries


@pytest.fixture(scope="module", autouse=True)
def _chip_of_the_module() -> Iterator[None]:
    yield
    library = libraries._loaded
    if library is not None and library.backend == "sim":
        chip = os.environ.get("CANN_MLA_SIM_SOC") or "Ascend910B"
        assert library.cannMlaSimSetSoc(chip.encode()) == 0


@pytest.fixture(scope="module")
def device() -> Iterator[cann_mla.Device]:
    cann_mla.load("sim")
    with cann_mla.Device(0) as opened:
        yield opened


@pytest.fixture
def stream(device: cann_mla.Device) -> Iterator[cann_mla.Stream]:
    device.use()
    with cann_mla.Stream() as opened:
        yield opened
