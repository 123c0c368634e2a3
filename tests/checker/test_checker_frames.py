"""From a frame of a C++ program to the line of its source."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cann_mla import simulator

SOURCE = """#include "acl/acl.h"
template <class T> void leak(T bytes) {
    void *memory;
    aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
}
int main() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    leak(64);
    aclrtResetDevice(0);
    aclFinalize();
}
"""


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="needs addr2line of binutils")
@pytest.mark.parametrize("kind", ["-pie", "-no-pie"])
def test_addr2line_takes_the_address_of_a_frame(tmp_path: Path, kind: str) -> None:
    program = tmp_path / "program"
    (tmp_path / "program.cpp").write_text(SOURCE)
    code = ["-fPIE"] if kind == "-pie" else ["-fno-pie"]
    command = ["g++", "-g", *code, kind, *simulator.compile_flags(), str(tmp_path / "program.cpp"), "-o", str(program)]
    subprocess.run([*command, *simulator.link_flags()], check=True)
    environment = {**os.environ, "CANN_MLA_SIM_STRICT": "1"}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 99
    made, caller = re.findall(r"at program: .*\+0x\w+ \[(0x\w+)\]", done.stderr)[:2]
    lines = subprocess.run(["addr2line", "-e", str(program), made, caller], capture_output=True, text=True, check=True)
    assert [Path(line.split(" ")[0]).name for line in lines.stdout.splitlines()] == ["program.cpp:4", "program.cpp:9"]
