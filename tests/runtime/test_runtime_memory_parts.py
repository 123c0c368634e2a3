"""A part of a device memory: the same bytes, under an address of its own."""

from __future__ import annotations

import numpy as np
import pytest

import cann_mla


@pytest.mark.usefixtures("device")
def test_a_part_is_the_same_bytes() -> None:
    with cann_mla.DeviceMemory(64) as memory:
        memory.write(np.arange(64, dtype=np.uint8))
        part = memory.part(16, 8)
        assert (part.address, part.nbytes, part.device) == (memory.address + 16, 8, memory.device)
        came = np.empty(8, np.uint8)
        part.read(came)
        assert came.tolist() == list(range(16, 24))
        part.fill(0)
        part.close()  # frees nothing
        whole = np.empty(64, np.uint8)
        memory.read(whole)
        assert whole.tolist() == [*range(16), *[0] * 8, *range(24, 64)]


@pytest.mark.usefixtures("device")
def test_a_part_lives_as_long_as_the_whole() -> None:
    memory = cann_mla.DeviceMemory(64)
    part, inner = memory.part(0, 32), memory.part(8, 16).part(4, 4)
    assert inner.address == memory.address + 12
    memory.close()
    for dead in (part, inner):
        with pytest.raises(cann_mla.ClosedError):
            dead.read(np.empty(dead.nbytes, np.uint8))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("offset", "nbytes"), [(0, 65), (-1, 4), (60, 5), (0, 0)])
def test_refused_parts(offset: int, nbytes: int) -> None:
    with cann_mla.DeviceMemory(64) as memory, pytest.raises(ValueError, match=r"do not fit|at least 1"):
        memory.part(offset, nbytes)
