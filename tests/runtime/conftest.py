"""A device of the simulator for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cann_mla


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
