"""What a call costs from Python: MlaPrologV3WeightNz without a token, against a C loop that does the same.

With no token in TND there is nothing to compute and no workspace: what is left is 39 arguments, two phases and
one launch. The C program is compiled when the benchmark runs.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cann_mla.bench.core import Measurement, SkipError
from cann_mla.validate.arrays import make_operands
from cann_mla.validate.cases import Case, parse
from cann_mla.validate.signatures import roles_of

OP = "aclnnMlaPrologV3WeightNz"
CALLS, BATCH = 20000, 500  # the stream is waited for once a batch
LIMIT_MICROSECONDS = 4.0

_SHAPES: dict[str, tuple[list[int], str]] = {
    "tokenX": ([0, 7168], "ND"),
    "weightDq": ([7168, 1536], "FRACTAL_NZ"),
    "weightUqQr": ([1536, 24576], "FRACTAL_NZ"),
    "weightUk": ([128, 128, 512], "ND"),
    "weightDkvKr": ([7168, 576], "FRACTAL_NZ"),
    "rmsnormGammaCq": ([1536], "ND"),
    "rmsnormGammaCkv": ([512], "ND"),
    "ropeSin": ([0, 64], "ND"),
    "ropeCos": ([0, 64], "ND"),
    "kvCacheRef": ([0, 1, 512], "ND"),
    "krCacheRef": ([0, 1, 64], "ND"),
    "queryOut": ([0, 128, 512], "ND"),
    "queryRopeOut": ([0, 128, 64], "ND"),
}

_PROGRAM = """
#include <stdio.h>
#include <time.h>
#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_mla_prolog_v3_weight_nz.h"
static aclTensor *tensor(const int64_t *dims, uint64_t count, aclFormat format) {
    static char memory[64];
    return aclCreateTensor(dims, count, ACL_BF16, 0, 0, format, dims, count, memory);
}
int main(void) {
    if (aclInit(0) || aclrtSetDevice(0)) return 1;
    aclrtStream stream;
    if (aclrtCreateStream(&stream)) return 1;
TENSORS
    char mode[] = "TND";
    double best = 1e9;
    for (int batch = 0; batch < BATCHES; ++batch) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < BATCH; ++i) {
            uint64_t size = 1;
            aclOpExecutor *executor = 0;
            if (aclnnMlaPrologV3WeightNzGetWorkspaceSize(tokenX, weightDq, weightUqQr, weightUk, weightDkvKr,
                    rmsnormGammaCq, rmsnormGammaCkv, ropeSin, ropeCos, kvCacheRef, krCacheRef, 0, 0, 0, 0, 0, 0, 0,
                    0, 0, 0, 1e-5, 1e-5, mode, 0, 0, 0, 0, 0, 128, 1.0, 1.0, queryOut, queryRopeOut, 0, 0, 0,
                    &size, &executor) || size) return 2;
            if (aclnnMlaPrologV3WeightNz(0, 0, executor, stream)) return 3;
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        if (aclrtSynchronizeStream(stream)) return 4;
        double spent = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / BATCH;
        if (spent < best) best = spent;
    }
    printf("%f\\n", best * 1e-3);
DESTROYS
    return aclrtDestroyStream(stream) || aclrtResetDevice(0) || aclFinalize();
}
"""


def lines() -> Iterator[Measurement]:
    """Microseconds a call in Python above those in C."""
    from_c = c_microseconds()
    from_python = python_microseconds()
    detail = {"calls": CALLS, "arguments": 39, "python_microseconds": from_python, "c_microseconds": from_c}
    of = "a C loop over the same two phases"
    yield Measurement("calls/python_above_c", from_python - from_c, "us", of, LIMIT_MICROSECONDS, "lower", detail)


def empty_case() -> Case:
    """The call without a token."""
    tensors: dict[str, Any] = {
        name: {"shape": shape, "dtype": "BF16", "format": format_name, "data": {"dist": "zeros"}}
        for name, (shape, format_name) in _SHAPES.items()
    }
    attrs = {"cacheModeOptional": "TND"}
    return parse({"id": "bench/calls", "op": OP, "soc": "Ascend910B", "tensors": tensors, "attrs": attrs})


def python_microseconds() -> float:
    """Best time of a call from Python, in the mode that the simulator is in."""
    from cann_mla.two_phase import operator
    from cann_mla.validate.run import Session

    case, roles = empty_case(), roles_of(OP)
    session = Session("sim")
    arrays = make_operands(case, is_output=roles.is_output)
    with session.prepare(case, arrays, roles) as prepared:
        arguments = {name: value for name, value in prepared.arguments.items() if value is not None}
        call, stream = operator(OP), session.stream
        prepared.run()
        best = float("inf")
        for _ in range(CALLS // BATCH):
            started = time.perf_counter()
            for _ in range(BATCH):
                call.prepare(**arguments).run(stream)
            best = min(best, (time.perf_counter() - started) / BATCH)
            stream.synchronize()
    return best * 1e6


def c_microseconds(*, strict: bool = False) -> float:
    """Best time of a call in a C program of its own.

    Raises
    ------
    SkipError
        There is no C compiler, or the program does not compile or run.
    """
    from cann_mla.simulator import compile_flags, environment, link_flags

    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SkipError("no C compiler (cc, gcc or clang) in PATH for the loop to compare with")
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "calls.c", Path(folder) / "calls"
        source.write_text(_PROGRAM.replace("TENSORS", _declarations()).replace("DESTROYS", _destroys()))
        defines = [f"-DBATCH={BATCH}", f"-DBATCHES={CALLS // BATCH}"]
        command = [compiler, "-O2", *defines, str(source), "-o", str(program), *compile_flags(), *link_flags()]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise SkipError(f"the C loop does not compile: {built.stderr.strip()[:500]}")
        variables = {**environment(), "CANN_MLA_SIM_SOC": "Ascend910B", "CANN_MLA_SIM_STRICT": str(int(strict))}
        ran = subprocess.run([str(program)], capture_output=True, text=True, env=variables, check=False)
        if ran.returncode:
            raise SkipError(f"the C loop ended with {ran.returncode}: {ran.stderr.strip()[:500]}")
        return float(ran.stdout)


def _declarations() -> str:
    rows = []
    for name, (shape, format_name) in _SHAPES.items():
        dims = ", ".join(map(str, shape))
        rows.append(f"    const int64_t {name}Dims[] = {{{dims}}};")
        rows.append(f"    aclTensor *{name} = tensor({name}Dims, {len(shape)}, ACL_FORMAT_{format_name});")
    return "\n".join(rows)


def _destroys() -> str:
    return "\n".join(f"    aclDestroyTensor({name});" for name in _SHAPES)
