"""A custom operator from end to end: its own header and library, bound at run time without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PROGRAM = """
import numpy as np
import cann_mla
{find}
device = cann_mla.Device(0)
stream = cann_mla.Stream()
x = cann_mla.Tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(3, 2))
out = cann_mla.Tensor.zeros((3, 2), "FP32")
shifts = [cann_mla.Tensor.from_numpy(np.array([v], np.float32)) for v in (0.25, 0.5)]
operator(stream, x=x, shifts=shifts, scale=2.0, rowsOptional=[0, 2], repeat=1, rounding=0, out=out)
stream.synchronize()
print(out.to_numpy().tolist())
operator(stream, x=x, shifts=shifts, scale=2.0, repeat=2, rounding=3, out=out, labelOptional="all")
stream.synchronize()
print(out.to_numpy().tolist())
"""


FOUND = 'operator = cann_mla.operator("aclnnScaleShift")'


def results(output: str) -> list[str]:
    return output.splitlines()


# rows 0 and 2 of [[0, 1], [2, 3], [4, 5]] * 2 + 0.75; then twice over: floor((x * 2 + 0.75) * 2 + 0.75)
EXPECTED = [
    "[[0.75, 2.75], [0.0, 0.0], [8.75, 10.75]]",
    "[[2.0, 6.0], [10.0, 14.0], [18.0, 22.0]]",
]


def test_package_is_found_through_the_variable(custom_package: Path, run_python: Callable[..., str]) -> None:
    output = run_python(
        PROGRAM.format(find=FOUND), ASCEND_CUSTOM_OPP_PATH=f"/nowhere:{custom_package}", CANN_MLA_BACKEND="sim"
    )
    assert results(output) == EXPECTED


def test_package_is_found_through_config_ini(
    custom_package: Path, tmp_path: Path, run_python: Callable[..., str]
) -> None:
    vendors = tmp_path / "opp/vendors"
    vendors.mkdir(parents=True)
    (vendors / "ours").symlink_to(custom_package)
    (vendors / "config.ini").write_text("load_priority=absent,ours\n")
    output = run_python(PROGRAM.format(find=FOUND), ASCEND_OPP_PATH=str(tmp_path / "opp"), CANN_MLA_BACKEND="sim")
    assert results(output) == EXPECTED


def test_header_and_library_are_named_by_the_caller(custom_package: Path, run_python: Callable[..., str]) -> None:
    find = f"""
folder = {str(custom_package / "op_api")!r}
operators = cann_mla.load_headers(f"{{folder}}/include", library=f"{{folder}}/lib/libcust_opapi.so")
operator = operators["aclnnScaleShift"]
assert cann_mla.operator("aclnnScaleShift") is operator
"""
    assert results(run_python(PROGRAM.format(find=find), CANN_MLA_BACKEND="sim")) == EXPECTED


def test_its_prototype_is_its_documentation(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = """
import pydoc, cann_mla
print(pydoc.render_doc(cann_mla.operator("aclnnScaleShift"), renderer=pydoc.plaintext))
"""
    text = run_python(program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim")
    assert "shifts         input      const aclTensorList *\n" in text
    assert "rowsOptional   attribute  const aclIntArray *, optional\n" in text
    assert "out            output     const aclTensor *\n" in text
    assert "aclnn_scale_shift.h" in text


def test_its_error_text_is_reported(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = """
import numpy as np, cann_mla
device = cann_mla.Device(0)
x = cann_mla.Tensor.zeros((3, 2), "FP16")
out = cann_mla.Tensor.zeros((3, 2), "FP32")
operator = cann_mla.operator("aclnnScaleShift")
try:
    operator.prepare(x=x, shifts=[], scale=1.0, repeat=1, rounding=0, out=out, labelOptional="mine")
except cann_mla.CannError as error:
    print(error.status, error.status_name)
    print(error.text)
for wrong in ({"repeat": 128}, {"rounding": "SCALE_UP"}, {"rowsOptional": [1.5]}, {"shifts": [x, "y"]}):
    try:
        operator.prepare(**{**dict(x=x, shifts=[], scale=1.0, repeat=1, rounding=0, out=out), **wrong})
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        print(type(error).__name__, error)
"""
    lines = run_python(program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim").splitlines()
    assert lines[0] == "161002 ACLNN_ERR_PARAM_INVALID"
    assert lines[1] == "aclnnScaleShift: x and out must be FP32 matrices of one shape (label mine)"
    assert lines[2] == "OverflowError aclnnScaleShift: argument repeat: 128 does not fit C's int8_t (8 bits)"
    assert lines[3].startswith("TypeError aclnnScaleShift: argument rounding: takes an integer")
    assert lines[4].startswith("TypeError aclnnScaleShift: argument rowsOptional: aclIntArray takes numbers that fit")
    assert lines[5].startswith("TypeError aclnnScaleShift: argument shifts: ")


def test_package_that_does_not_load_is_left_out_and_said_so(tmp_path: Path, run_python: Callable[..., str]) -> None:
    library = tmp_path / "op_api/lib/libcust_opapi.so"
    library.parent.mkdir(parents=True)
    library.write_text("not a library")
    program = """
import warnings, cann_mla
with warnings.catch_warnings(record=True) as caught:
    library = cann_mla.load()
print(caught[0].message)
print([str(attempt) for attempt in library.search_report if "libcust" in attempt.place][0])
"""
    lines = run_python(program, ASCEND_CUSTOM_OPP_PATH=str(tmp_path), CANN_MLA_BACKEND="sim").splitlines()
    assert "left out" in lines[0]
    assert "refused:" in lines[1]


def test_header_without_an_operator_is_refused(tmp_path: Path, run_python: Callable[..., str]) -> None:
    header = tmp_path / "plain.h"
    header.write_text("int add(int a, int b);\n")
    program = f"""
import cann_mla
try:
    cann_mla.load_headers({str(header)!r})
except LookupError as error:
    print(error)
"""
    assert "it takes both phases" in run_python(program, CANN_MLA_BACKEND="sim")


def test_operator_whose_library_is_missing_raises_when_called(
    custom_package: Path, run_python: Callable[..., str]
) -> None:
    program = f"""
import cann_mla
operator = cann_mla.load_headers({str(custom_package / "op_api/include/aclnn_scale_shift.h")!r})["aclnnScaleShift"]
try:
    operator.prepare(x=None, shifts=None, scale=1.0, repeat=1, rounding=0, out=None)
except cann_mla.SymbolNotFoundError as error:
    print(error)
"""
    assert "aclnnScaleShiftGetWorkspaceSize is in none of the loaded libraries" in run_python(
        program, CANN_MLA_BACKEND="sim"
    )


START = """
import numpy as np, cann_mla
from cann_mla import c
device = cann_mla.Device(0)
stream = cann_mla.Stream()
x = cann_mla.Tensor.zeros((3, 2), "FP32")
out = cann_mla.Tensor.zeros((3, 2), "FP32")
operator = cann_mla.operator("aclnnScaleShift")
given = dict(x=x, shifts=[], scale=1.0, repeat=1, rounding=0, out=out)
"""


def test_fault_of_a_kernel_names_what_was_queued(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = (
        START
        + """
operator(stream, **given)
stream.synchronize()
x.memory.fill(0, stream=stream)
operator(stream, **given)
operator(stream, **given, rowsOptional=[7])
try:
    stream.synchronize()
except cann_mla.CannError as error:
    print(error.api, error.phase, error.status, error.status_name)
    print(error.text)
    print(error.launches)
    print(error)
"""
    )
    lines = run_python(program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim").splitlines()
    assert lines[0] == "aclrtSynchronizeStream synchronize 507015 ACL_ERROR_RT_AICORE_EXCEPTION"
    assert "row 7 is outside of x" in lines[1]
    assert lines[2] == "('aclrtMemsetAsync', 'aclnnScaleShift', 'aclnnScaleShift')"
    assert "since the last good synchronisation: aclrtMemsetAsync, aclnnScaleShift x 2" in lines[-1]


def test_timeout_leaves_the_stream_usable(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = (
        START
        + """
operator(stream, **given, labelOptional="slow")
try:
    stream.synchronize(timeout=0.01)
except cann_mla.CannError as error:
    print(error.status_name, error.launches)
print(stream.query())
event = stream.record()
try:
    event.synchronize(timeout=0.01)
except cann_mla.CannError as error:
    print(error.status_name)
stream.synchronize()
print(stream.query(), event.query())
"""
    )
    lines = run_python(program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim").splitlines()
    assert lines == [
        "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT ('aclnnScaleShift',)",
        "False",
        "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT",
        "True True",
    ]


def test_operands_and_workspace_outlive_queued_work(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = (
        START
        + """
x.copy_from(np.arange(6, dtype=np.float32).reshape(3, 2))
empty = c.cannMlaSimDeviceBytes(0)
source = cann_mla.Tensor.from_numpy(x.to_numpy())
workspace = cann_mla.DeviceMemory(1 << 16)
operator(stream, workspace, **{**given, "x": source}, labelOptional="slow")
operator(stream, **{**given, "x": source})
source.close()
workspace.close()
print(stream.query(), c.cannMlaSimDeviceBytes(0) > empty)
stream.synchronize()
print(out.to_numpy().tolist(), c.cannMlaSimDeviceBytes(0) == empty)
"""
    )
    lines = run_python(program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim").splitlines()
    assert lines == ["False True", "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] True"]


def test_workspaces_stay_flat_without_a_synchronisation(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = (
        START
        + """
operator(stream, **given)
most = c.cannMlaSimDeviceBytes(0)
for index in range(5000):
    operator(stream, **given)
    with cann_mla.DeviceMemory(64) as workspace:
        operator(stream, workspace, **given)
    if index % 100 == 0:
        most = max(most, c.cannMlaSimDeviceBytes(0))
print(most)
"""
    )
    assert int(run_python(program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim")) < 100_000


def test_two_threads_with_a_stream_each(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = (
        START
        + """
from concurrent.futures import ThreadPoolExecutor

def work(number):
    device.use()
    with cann_mla.Stream() as own, cann_mla.Tensor.zeros((3, 2), "FP32") as result:
        values = np.full((3, 2), number, np.float32)
        for _ in range(200):
            with cann_mla.Tensor.from_numpy(values) as tensor:
                operator(own, **{**given, "x": tensor, "scale": 2.0, "out": result})
        own.synchronize()
        return bool((result.to_numpy() == 2 * number).all())

with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(8))))
print(c.cannMlaSimFindingCount())
"""
    )
    lines = run_python(
        program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim", CANN_MLA_SIM_STRICT="1"
    ).splitlines()
    assert lines == [str([True] * 8), "0"]


def test_roles_can_be_corrected(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = f"""
import cann_mla
path = {str(custom_package / "op_api/include/aclnn_scale_shift.h")!r}
operators = cann_mla.load_headers(path, roles={{"aclnnScaleShift": {{"x": "inplace optional"}}}})
parameter = operators["aclnnScaleShift"].signature["x"]
print(parameter.role.value, parameter.optional)
"""
    assert run_python(program, CANN_MLA_BACKEND="sim") == "inplace True\n"


def test_repeatable_plan_takes_other_lists(custom_package: Path, run_python: Callable[..., str]) -> None:
    program = (
        START
        + """
def shift(value):
    return cann_mla.Tensor.from_numpy(np.array([value], np.float32))

other = cann_mla.Tensor.zeros((3, 2), "FP32")
for shifts in ([shift(1), shift(2)], cann_mla.TensorList([shift(1), shift(2)])):
    with operator.prepare(repeatable=True, **{**given, "shifts": shifts}) as plan:
        plan.run(stream)
        plan.set_tensor("shifts", cann_mla.TensorList([shift(10), shift(20)]))
        plan.set_tensor("out", other)
        plan.run(stream)
        stream.synchronize()
    print(out.to_numpy()[0, 0], other.to_numpy()[0, 0])
"""
    )
    lines = run_python(program, ASCEND_CUSTOM_OPP_PATH=str(custom_package), CANN_MLA_BACKEND="sim").splitlines()
    assert lines == ["3.0 30.0", "3.0 30.0"]
