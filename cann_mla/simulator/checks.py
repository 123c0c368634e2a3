"""The checks of strict mode from Python: switching them on, and what they found."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cann_mla.simulator.finding import Finding, parse

if TYPE_CHECKING:
    from cann_mla.libraries import Library
    from cann_mla.runtime.owner import Owner

EXIT_STATUS = 99
"""Exit status of a program that would have returned 0, but has findings in strict mode."""


def set_strict(on: bool) -> bool:
    """Switch strict mode on or off. It never changes a status; it slows calls down.

    What was made while it was off has no known origin, and its memory counts as written.

    Returns
    -------
    bool
        Whether it was on before.
    """
    library = simulator()
    before = bool(library.cannMlaSimGetStrict())
    library.cannMlaSimSetStrict(1 if on else 0)
    return before


def findings() -> list[Finding]:
    """What was found so far, each mistake once; inside of :func:`watch`, since the watch began."""
    library = simulator()
    found: list[Finding] = []
    while True:
        finding = _finding(library, len(found))
        if finding is None:
            return found
        found.append(finding)


def clear_findings() -> None:
    """Forget what was found, and the first failing call."""
    simulator().cannMlaSimClearFindings()


def load_suppressions(path: str | os.PathLike[str]) -> None:
    """Suppress the findings that a file names, in addition to those of ``CANN_MLA_SIM_SUPPRESSIONS``.

    Parameters
    ----------
    path : path
        One suppression a line; ``#`` begins a comment. ``rule api=PATTERN where=PATTERN``, all of them shell patterns
        and the last two optional: the C function and a frame of the creating or the breaking call.

    Raises
    ------
    CannError
        If the file cannot be read, or a line not understood.
    """
    library = simulator()
    library.check(library.cannMlaSimLoadSuppressions(os.fsencode(path)), "cannMlaSimLoadSuppressions", "load")


class Watch:
    """What :func:`watch` found."""

    def __init__(self) -> None:
        self._findings: list[Finding] | None = None

    @property
    def findings(self) -> list[Finding]:
        """Those so far while the watch lasts, all of them afterwards."""
        return findings() if self._findings is None else self._findings

    @property
    def rules(self) -> list[str]:
        """The rules that were broken, in the order of the findings."""
        return [finding.rule for finding in self.findings]


@contextmanager
def watch(*, leaks: bool = False) -> Iterator[Watch]:
    """Check a piece of code in strict mode.

    Findings of the block belong to the watch: they are not printed, and do not fail the process. The block is that of
    all threads; where watches of several threads overlap, a finding belongs to the one that began last.

    Parameters
    ----------
    leaks : bool
        Report what was made in the block and is not given back at its end, what Python objects hold among it. Without,
        leaks are looked for at ``aclFinalize`` and at the end of the process only.

    Yields
    ------
    Watch
    """
    library = simulator()
    mark = library.cannMlaSimMarkLiving() if leaks else None
    kept = set(_cached()) if leaks else set()
    library.cannMlaSimBeginWatch()
    watching = Watch()
    _switch_on_for(watching)
    try:
        yield watching
    finally:
        if mark is not None:
            gc.collect()
            _drop_caches_but(kept)
            library.cannMlaSimReportLeaksSince(mark)
        _switch_back_after(watching)
        watching._findings = findings()
        library.cannMlaSimEndWatch()


_open: list[tuple[Watch, bool]] = []  # watches, and whether strict mode was on before each; the last began last
_open_lock = threading.Lock()


def _switch_on_for(watching: Watch) -> None:
    with _open_lock:
        _open.append((watching, set_strict(True)))


def _switch_back_after(watching: Watch) -> None:
    # Watches of several threads end in any order: strict mode stays on for those that go on.
    with _open_lock:
        index = next(index for index, (other, _) in enumerate(_open) if other is watching)
        _, before = _open.pop(index)
        if index == len(_open):
            set_strict(before)
        else:
            _open[index] = (_open[index][0], before)


def _cached() -> Iterable[Owner]:
    from cann_mla.runtime.owner import cached

    return cached


def _drop_caches_but(kept: set[Owner]) -> None:
    """Give back what the package keeps to be quicker next time: that is no leak of the program."""
    from cann_mla.runtime.device import open_devices

    for thing in _cached():
        if thing not in kept:
            thing.close()
    for state in open_devices.values():
        for stream in state.streams:
            stream.drop_pooled_events()


def tell_lines(library: Library) -> None:
    """Let a simulator that was just loaded name the lines of Python that lead to its calls."""
    from cann_mla.binding import abi, compiled

    setter = library.address("cannMlaSimSetLocator")
    if setter is None:  # an older library, named by CANN_MLA_SIM_LIBRARY
        return
    import atexit

    locator = compiled("_locator")
    package, python = Path(__file__).resolve().parents[1], Path(os.__file__).resolve().parent
    locator.install(int(abi().ffi.cast("uintptr_t", setter)), f"{package}/", f"{python}/")
    atexit.register(locator.uninstall)  # no thread may ask for lines once the interpreter is gone


def simulator() -> Library:
    """The library, which must be the simulator.

    Raises
    ------
    RuntimeError
        If CANN is loaded instead.
    """
    from cann_mla.libraries import load

    library = load()
    if library.backend != "sim":
        raise RuntimeError(f"{library!r} is not the simulator; set CANN_MLA_BACKEND=sim before CANN is loaded")
    return library


def _finding(library: Library, index: int) -> Finding | None:
    from cann_mla.binding import abi

    ffi = abi().ffi
    text = library.cannMlaSimFindingJson(index)
    if text == ffi.NULL:
        return None
    paragraph = library.cannMlaSimFindingText(index)
    return parse(ffi.string(text).decode(errors="replace"), ffi.string(paragraph).decode(errors="replace"))
