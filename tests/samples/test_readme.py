"""The Python of the README runs as it stands there, in order, and prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_python_blocks(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    program = tmp_path / "readme.py"
    program.write_text("\n".join(blocks))
    environment = {**os.environ, "CANN_MLA_BACKEND": "sim", "CANN_MLA_SIM_SOC": "Ascend910B"}
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"^ *print\(.*\) +# (\(.+)$", "\n".join(blocks), re.MULTILINE)
    assert promised == ["(4, 8, 512)", "(2, 1, 8, 512) 3"]
    for line in promised:
        assert line in done.stdout.splitlines()
