"""A stream on the simulator, which is an Ascend910B."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cann_mla
from cann_mla.validate.library import open_library, select_product


@pytest.fixture
def stream() -> Iterator[cann_mla.Stream]:
    select_product(open_library("sim"), "Ascend910B")
    with cann_mla.Device(0), cann_mla.Stream() as opened:
        yield opened
