"""The simulator's library has every function that the headers declare, and converts half precision exactly."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cann_mla import simulator
from cann_mla.headers import shipped


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(simulator.library_path()))


def declared_functions(folder: str) -> set[str]:
    functions = shipped.load().functions.values()
    return {function.name for function in functions if Path(function.header).parent.name == folder}


@pytest.mark.parametrize(("folder", "at_least"), [("acl", 190), ("aclnn", 40), ("sim", 10)])
def test_every_declared_function_exists(library: ctypes.CDLL, folder: str, at_least: int) -> None:
    declared = declared_functions(folder)
    assert len(declared) >= at_least
    assert {name for name in declared if not hasattr(library, name)} == set()


def test_library_exports_functions_of_cann_and_its_own_namespace_only() -> None:
    command = ["nm", "-D", "--defined-only", "-C", str(simulator.library_path())]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    strong = [line.split(" ", 2)[2] for line in lines if line.split(" ", 2)[1] in "TDB"]
    own = re.compile(r"acl|Acl|cannMlaSim|op::tagFp16::|sim::|(vtable|typeinfo).* for sim::|__odr_asan\.")
    assert [name for name in strong if not own.match(name)] == []


def test_half_to_float_is_exact_for_every_value(library: ctypes.CDLL) -> None:
    convert = library.aclFloat16ToFloat
    convert.restype, convert.argtypes = ctypes.c_float, [ctypes.c_uint16]
    halves = np.arange(65536, dtype=np.uint16)
    actual = np.array([convert(int(half)) for half in halves], dtype=np.float32)
    expected = halves.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(actual, expected)
    assert np.array_equal(np.signbit(actual), np.signbit(expected))


def test_float_to_half_rounds_to_nearest_even(library: ctypes.CDLL) -> None:
    convert = library.aclFloatToFloat16
    convert.restype, convert.argtypes = ctypes.c_uint16, [ctypes.c_float]
    finite = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (finite[:-1].astype(np.float64) + finite[1:]) / 2  # exact in float32: ties
    ties = middles.astype(np.float32)
    random = np.random.default_rng(1).integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.array([65504, 65519.996, 65520, 65536, 1e30, np.inf, 2**-25, 2**-26, 1e-30, 0.0], np.float32)
    values = np.concatenate([finite, ties, np.nextafter(ties, 1e9, dtype=np.float32), random, edges])
    values = np.concatenate([values, -values])
    values = values[~np.isnan(values)]
    actual = np.array([convert(float(value)) for value in values], dtype=np.uint16)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(actual, expected)
    assert np.isnan(np.uint16(convert(float("nan"))).view(np.float16))
