"""The package as a whole: light to import, and every public name there and documented."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import cann_mla
from cann_mla.binding import native_folder


@pytest.mark.parametrize("name", cann_mla.__all__)
def test_public_name_is_there_and_documented(name: str) -> None:
    thing = getattr(cann_mla, name)
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        own = [m for n, m in vars(thing).items() if not n.startswith("_") and inspect.isfunction(m)]
        assert [m.__qualname__ for m in own if not m.__doc__] == []


def test_unknown_name(run_python: Callable[..., str]) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        cann_mla.nope  # noqa: B018


def test_import_brings_in_neither_numpy_nor_cffi(run_python: Callable[..., str]) -> None:
    program = "import sys, cann_mla; print(sorted({'numpy', 'cffi', '_cffi_backend', 'ctypes'} & set(sys.modules)))"
    assert run_python(program) == "[]\n"


def test_version_is_that_of_the_distribution() -> None:
    assert cann_mla.__version__ == version("cann_mla")


def test_installed_files() -> None:
    folder = native_folder()
    assert (folder / "include/acl/acl_rt.h").is_file()
    assert (folder / "include/roles.json").is_file()
    assert (folder / "simulator/lib/libcann_mla_sim.so").is_file()
    assert (Path(cann_mla.__file__).parent / "py.typed").is_file()


def test_package_that_was_not_built_says_so(run_python: Callable[..., str], tmp_path: Path) -> None:
    source = Path(cann_mla.__file__).parent
    for folder in ("", "binding"):
        (tmp_path / "cann_mla" / folder).mkdir(exist_ok=True)
        shutil.copy(source / folder / "__init__.py", tmp_path / "cann_mla" / folder)
    program = f"""
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
sys.path.insert(0, {str(tmp_path)!r})
from cann_mla.binding import abi
try:
    abi()
except ImportError as error:
    print(error)
"""
    text = run_python(program)
    assert text.startswith(f"cann_mla.binding._abi is missing: cann_mla was imported from {tmp_path / 'cann_mla'}")
    assert "pip install -e ." in text
