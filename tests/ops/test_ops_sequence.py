"""Sequences of operator calls: shared memory, repeated runs, other operands."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cann_mla
from cann_mla.errors import CannError, ClosedError
from cann_mla.ops import OperatorSequence
from cann_mla.ops.sequence import Slot, share_memory

bf16 = ml_dtypes.bfloat16


def test_memory_is_shared_by_what_lives_at_other_times() -> None:
    # 100 and 40 live together; 60 comes when 100 is gone, 80 when all others are.
    offsets, nbytes = share_memory([(0, 1, 100), (1, 2, 40), (2, 3, 60), (4, 4, 80)])
    assert offsets == [0, 100, 0, 0]
    assert nbytes == 140


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 50)), max_size=12))
def test_nothing_overlaps_what_lives_at_the_same_time(things: list[tuple[int, int, int]]) -> None:
    lives = [(first, first + length, nbytes) for first, length, nbytes in things]
    offsets, nbytes = share_memory(lives)
    placed = [(first, last, at, at + size) for (first, last, size), at in zip(lives, offsets, strict=True)]
    for one, other in itertools.combinations(placed, 2):
        together = one[0] <= other[1] and other[0] <= one[1]
        assert not together or one[3] <= other[2] or other[3] <= one[2] or one[2] == one[3] or other[2] == other[3]
    assert nbytes == max((end for *_, end in placed), default=0)


def tensor(values: list[Any], kind: Any = bf16) -> cann_mla.Tensor:
    return cann_mla.Tensor.from_numpy(np.array(values, kind))


def twice(x: cann_mla.Tensor, w: cann_mla.Tensor, y: cann_mla.Tensor) -> tuple[OperatorSequence, list[Slot]]:
    """y = (x w) w; the first product is an intermediate. The sequence, and the slots of x, w and y."""
    steps = OperatorSequence()
    slots = [steps.operand(t) for t in (x, w, y)]
    between = steps.intermediate((1, 2), "BF16")
    steps.add("aclnnMm", self=slots[0], mat2=slots[1], out=between, cubeMathType=0)
    steps.add("aclnnMm", self=between, mat2=slots[1], out=slots[2], cubeMathType=0)
    steps.prepare()
    return steps, slots


def test_a_chain_runs_again_and_on_other_tensors(stream: cann_mla.Stream) -> None:
    x, w, y = tensor([[1, 2]]), tensor([[1, 2], [3, 4]]), tensor([[0, 0]])
    steps, slots = twice(x, w, y)
    with steps:
        for _ in range(3):
            y.copy_from(np.zeros((1, 2), bf16))
            steps.run(stream)
            stream.synchronize()
            assert y.to_numpy().tolist() == [[37, 54]]  # [1 2] -> [7 10] -> [37 54]
        other_x, other_y = tensor([[1, 0]]), tensor([[0, 0]])
        x.close()  # the sequence keeps what it needs itself
        steps.replace(slots[0], other_x)
        steps.replace(slots[2], other_y)
        steps.run(stream)
        stream.synchronize()
        assert other_y.to_numpy().tolist() == [[7, 10]]  # [1 0] -> [1 2] -> [7 10]
        assert y.to_numpy().tolist() == [[37, 54]]


def test_replacing_leaves_no_handles_behind(stream: cann_mla.Stream) -> None:
    steps, slots = twice(tensor([[1, 2]]), tensor([[1, 2], [3, 4]]), tensor([[0, 0]]))
    library = cann_mla.load()
    kinds = range(3)

    def live() -> list[int]:
        gc.collect()
        gc.collect()  # what earlier tests left in cycles must not go in between
        return [library.cannMlaSimLiveHandles(kind) for kind in kinds] + [library.cannMlaSimDeviceAllocations(0)]

    with steps:
        steps.replace(slots[0], tensor([[1, 0]]))
        before = live()
        for _ in range(100):
            steps.replace(slots[0], tensor([[0, 1]]))
            steps.run(stream)
            stream.synchronize()
        assert live() == before


def test_timed_run_names_every_call(stream: cann_mla.Stream) -> None:
    y = tensor([[0, 0]])
    steps, _ = twice(tensor([[1, 2]]), tensor([[1, 2], [3, 4]]), y)
    with steps:
        times = steps.timed_run(stream)
    assert [name for name, _ in times] == ["aclnnMm", "aclnnMm"]
    assert all(ms >= 0 for _, ms in times)
    assert y.to_numpy().tolist() == [[37, 54]]


def test_a_view_is_the_same_memory(stream: cann_mla.Stream) -> None:
    steps = OperatorSequence()
    flat = steps.intermediate((4,), "FP32")
    x, y = tensor([[1, 2], [3, 4]], np.float32), tensor([0, 0, 0, 0], np.float16)
    steps.add("aclnnMm", self=steps.operand(x), mat2=steps.operand(x), out=flat.view(2, 2), cubeMathType=0)
    steps.add("aclnnCast", self=flat, dtype=cann_mla.dtype("FP16").code, out=steps.operand(y))
    steps.prepare()
    with steps:
        steps.run(stream)
        stream.synchronize()
    assert y.to_numpy().tolist() == [7, 10, 15, 22]


def test_mistakes_say_what_they_are(stream: cann_mla.Stream) -> None:
    x, w, y = tensor([[1, 2]]), tensor([[1, 2], [3, 4]]), tensor([[0, 0]])
    with pytest.raises(RuntimeError, match="prepare"):
        OperatorSequence().run(stream)
    with pytest.raises(ValueError, match=r"3 elements; the slot of \[1, 2\] 2"):
        OperatorSequence().operand(x).view(3)
    strided = cann_mla.Tensor.from_numpy(np.zeros((2, 2), bf16), strides=(1, 2))
    with pytest.raises(ValueError, match="only a dense tensor in ND has views"):
        OperatorSequence().operand(strided).view(4)
    steps, slots = twice(x, w, y)
    with pytest.raises(RuntimeError, match="make another one"):
        steps.add("aclnnMm")
    with pytest.raises(RuntimeError, match="prepared already"):
        steps.prepare()
    with pytest.raises(ValueError, match="needs a new sequence"):
        steps.replace(slots[0], tensor([[1], [2]]))
    with pytest.raises(ValueError, match="only the slot of an operand"):
        steps.replace(steps.intermediate((1, 2), "BF16"), x)
    steps.close()
    steps.close()
    with pytest.raises(ClosedError, match="OperatorSequence has been closed"):
        steps.run(stream)


def test_a_refused_call_leaves_nothing_behind(stream: cann_mla.Stream) -> None:
    x, w = tensor([[1, 2]]), tensor([[1, 2, 3]])
    library = cann_mla.load()
    before = library.cannMlaSimDeviceAllocations(0)
    steps = OperatorSequence()
    out = steps.intermediate((1, 3), "BF16")
    steps.add("aclnnMm", self=steps.operand(x), mat2=steps.operand(w), out=out, cubeMathType=0)
    with pytest.raises(CannError, match="161002"):
        steps.prepare()
    assert library.cannMlaSimDeviceAllocations(0) == before
    with pytest.raises(ClosedError):
        steps.run(stream)


def test_strided_views_cut_columns_out(stream: cann_mla.Stream) -> None:
    """The last two columns of x x, and where they go: every second element of y."""
    x, y = tensor([[1, 2, 3], [0, 1, 0], [2, 0, 1]], np.float32), tensor([0] * 8, np.float16)
    steps = OperatorSequence()
    square = steps.intermediate((3, 3), "FP32")
    steps.add("aclnnMm", self=steps.operand(x), mat2=steps.operand(x), out=square, cubeMathType=0)
    steps.add(
        "aclnnCast",
        self=square.view(2, 2, strides=(3, 1), offset=1),
        dtype=cann_mla.dtype("FP16").code,
        out=steps.operand(y).view(2, 2, strides=(4, 2), offset=1),
    )
    steps.prepare()
    with steps:
        steps.run(stream)
        stream.synchronize()
    # rows of x x: [7 4 6], [0 1 0], [4 4 7]
    assert y.to_numpy().tolist() == [0, 4, 0, 6, 0, 1, 0, 0]
    with pytest.raises(ValueError, match=r"reaches over 10 elements; the slot of \[3, 3\] has 9"):
        square.view(2, 2, strides=(7, 1), offset=1)


def test_scratch_lies_in_the_memory_of_what_is_written_later(stream: cann_mla.Stream) -> None:
    x = cann_mla.Tensor.from_numpy(np.full((2, 8), 2, np.float32))
    ones = cann_mla.Tensor.from_numpy(np.ones(8, np.float32))
    out = cann_mla.Tensor.zeros((2, 8), "FP32")
    with cann_mla.ops.OperatorSequence() as steps:
        source, later, normed = steps.operand(x), steps.operand(out), steps.intermediate((2, 8), "FP32")
        roots = later.scratch((2, 1), "FP32")
        steps.add("aclnnRmsNorm", x=source, gamma=steps.operand(ones), epsilon=0.0, yOut=normed, rstdOut=roots)
        steps.prepare()
        steps.run(stream)
        stream.synchronize()
        assert out.to_numpy().ravel()[:3].tolist() == [0.5, 0.5, 0]
        with pytest.raises(ValueError, match="does not fit into"):
            later.scratch((9, 8), "FP16")
