"""The loaded C ABI: CANN where there is one, the simulator elsewhere.

A process has one :class:`Library`, made by the first :func:`load`. Its attributes are the C functions under their
own names. A function is looked up when it is first asked for; one that the loaded libraries lack raises
:class:`~cann_mla.errors.SymbolNotFoundError` when it is called.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from cann_mla.binding import abi, native_folder
from cann_mla.discovery import Attempt, Installation, Search
from cann_mla.errors import LibraryNotFoundError, SymbolNotFoundError, failure
from cann_mla.prototypes import Prototypes
from cann_mla.shared_object import SharedObject
from cann_mla.simulator.checks import tell_lines

BACKENDS = ("auto", "cann", "sim")
SIMULATOR = "simulator/lib/libcann_mla_sim.so"
SIMULATOR_EXTRAS = ("libcann_mla_sim_atb.so", "libcann_mla_sim_hccl.so")


class Library:
    """The C ABI of one CANN installation or of the simulator.

    Attributes
    ----------
    backend : {"cann", "sim"}
    installation : Installation or None
        What was found on disk; None for the simulator.
    version : str or None
        Release of the CANN that is loaded; None for the simulator, which knows every symbol of the headers.
    search_report : tuple of Attempt
        Every place that was looked at on the way here, and why it was taken or refused.
    prototypes : Prototypes
        The signature of each function: from the installed header where there is one.

    Notes
    -----
    ``library.aclrtMalloc`` is the C function; any C function of the headers can be called so, with the rules of
    :mod:`cann_mla.c`. Calls release the GIL.
    """

    backend: str
    installation: Installation | None
    version: str | None
    prototypes: Prototypes

    def __init__(
        self,
        backend: str,
        core: Sequence[Path],
        *,
        operators: Iterable[Path] = (),
        custom: Iterable[Path] = (),
        extras: Iterable[Path] = (),
        installation: Installation | None = None,
        includes: Iterable[Path] = (),
    ) -> None:
        self.backend = backend
        self.installation = installation
        self.version = installation.version if installation else None
        self.prototypes = Prototypes(includes, self.version)
        self._core = [SharedObject(path) for path in core]
        self._operators = [SharedObject(path) for path in operators]
        self._custom = [SharedObject(path) for path in custom]
        self._extras = [SharedObject(path) for path in extras]
        self._attempts: list[Attempt] = []
        self._initialised = False
        self._lock = Lock()

    @property
    def search_report(self) -> tuple[Attempt, ...]:
        """Every place looked at, and what was there."""
        return tuple(self._attempts)

    @property
    def files(self) -> tuple[Path, ...]:
        """The library files, those loaded only on demand included."""
        return tuple(o.path for o in (*self._custom, *self._operators, *self._core, *self._extras))

    def __repr__(self) -> str:
        return f"<Library {self.backend} {self.version or ''} {self._core[0].path}>"

    def _open(self) -> str | None:
        """Load what must be there; the reason if that fails."""
        for needed in (*self._core, *self._operators):
            if not needed.open():
                return f"{needed.path}: {needed.refusal}"
        for package in self._custom:
            if not package.open():
                self._attempts.append(Attempt(str(package.path), f"refused: {package.refusal}"))
                warnings.warn(f"custom operator package {package.path} left out: {package.refusal}", stacklevel=3)
        return None

    # C functions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "prototypes" or not self.prototypes.knows(name):
            raise AttributeError(f"{name!r} is no C function of the headers, and no attribute of a Library")
        function = self.bind(name)
        self.__dict__[name] = function
        return function

    def bind(self, name: str, source: SharedObject | None = None) -> Callable[..., Any]:
        """The C function of a symbol, from one shared object or else from all that are loaded.

        A symbol that is not there gives a function that raises :class:`SymbolNotFoundError` when called.
        """
        address = self.address(name) if source is None else source.find(name)
        if address is None:
            return self._missing(name, [source] if source else self._places(name))
        return self.prototypes.function(name, address, apart=source is not None)

    def _missing(self, name: str, places: Sequence[SharedObject]) -> Callable[..., Any]:
        since = self.prototypes.since(name)
        searched = [str(place.path) for place in places]

        loaded = "the simulator" if self.backend == "sim" else f"CANN {self.version or 'of unknown release'}"

        def missing(*arguments: Any) -> Any:
            raise SymbolNotFoundError(name, searched, since, loaded)

        missing.__name__ = name
        return missing

    def _places(self, symbol: str) -> list[SharedObject]:
        """Libraries to ask for a symbol, in order: custom packages may override an operator and nothing else."""
        if symbol.startswith("aclnn"):
            return [*self._custom, *self._operators, *self._core]
        return [*self._core, *self._extras, *self._custom, *self._operators]

    def address(self, symbol: str) -> Any:
        """Address of a symbol as ``void *``, or None if the loaded libraries lack it."""
        for place in self._places(symbol):
            if (address := place.find(symbol, own=place in self._custom)) is not None:
                return address
        return None

    def has(self, symbol: str) -> bool:
        """Whether the loaded libraries export a symbol."""
        return self.address(symbol) is not None

    def where(self, symbol: str) -> Path | None:
        """The file that defines a symbol, or None if the loaded libraries lack it."""
        address = self.address(symbol)
        if address is None:
            return None
        return Path(os.fsdecode(abi().ffi.string(abi().lib.cann_mla_file_of(address))))

    # Process-wide state

    def initialise(self, config: str | os.PathLike[str] | None = None) -> None:
        """Call ``aclInit`` once; done by the first :class:`~cann_mla.Device`.

        Parameters
        ----------
        config : path, optional
            The JSON file that ``aclInit`` takes.

        Raises
        ------
        CannError
            If CANN refuses. That somebody else in the process has called ``aclInit`` is no error.
        """
        with self._lock:
            if self._initialised:
                return
            ffi = abi().ffi
            status = self.aclInit(ffi.NULL if config is None else ffi.new("char[]", os.fsencode(config)))
            if status not in (0, abi().lib.ACL_ERROR_REPEAT_INITIALIZE):
                raise failure(self, "aclInit", "initialise", status)
            self._initialised = True

    def finalise(self) -> None:
        """Call ``aclFinalize``, after every object was closed.

        Never called on its own: CANN must not be finalised from an exit handler.
        """
        with self._lock:
            status = self.aclFinalize()
            self._initialised = False
        self.check(status, "aclFinalize", "finalise")

    def recent_error_text(self) -> str:
        """What CANN last had to say in this thread; asking clears it."""
        text = self.aclGetRecentErrMsg()
        ffi = abi().ffi
        return "" if text == ffi.NULL else ffi.string(text).decode(errors="replace")

    def check(self, status: int, api: str, phase: str, **details: Any) -> None:
        """Raise :class:`~cann_mla.CannError` unless the status is 0; call it at once, in the same thread."""
        if status:
            raise failure(self, api, phase, status, **details)

    @property
    def soc(self) -> str | None:
        """Name of the chip as ``aclrtGetSocName`` says, or None if it does not."""
        ffi = abi().ffi
        name = self.aclrtGetSocName()
        return None if name == ffi.NULL else ffi.string(name).decode()

    @property
    def product(self) -> str | None:
        """Product line of the chip (``"Ascend910B"`` for ``"Ascend910B1"``), or None if it is not known."""
        chip = self.soc or ""
        return next((product for product in PRODUCTS if chip.startswith(product)), None)


PRODUCTS = ("Ascend910B", "Ascend910_93", "Ascend950")
_loaded: Library | None = None
_loading = Lock()
_forked = False


def _forget_in_child() -> None:
    """A forked process has none of the threads that CANN, or the simulator, works with."""
    global _loaded, _loading, _forked
    _forked = _forked or _loaded is not None
    _loaded, _loading = None, Lock()


os.register_at_fork(after_in_child=_forget_in_child)


def load(backend: str | None = None, *, home: str | os.PathLike[str] | None = None) -> Library:
    """Load CANN or the simulator, once a process.

    Parameters
    ----------
    backend : {"auto", "cann", "sim"}, optional
        Default: the variable ``CANN_MLA_BACKEND``, else ``"auto"``: CANN if an installation is found and loads,
        else the simulator.
    home : path, optional
        Root folder of the CANN installation to use, instead of searching for one.

    Returns
    -------
    Library
        The same object for every call of the process.

    Raises
    ------
    LibraryNotFoundError
        With every place that was looked at.
    RuntimeError
        In a process that was forked from one that had loaded a backend.
    ValueError
        If the process has already loaded the other backend, or `backend` is none of the three.
    """
    global _loaded
    if _loaded is not None and backend is None and home is None:
        return _loaded
    if _forked:
        raise RuntimeError(
            "this process was forked from one that works with devices, which a forked process cannot; start it anew, "
            "with multiprocessing's 'spawn' or 'forkserver', or fork before the first Device"
        )
    with _loading:
        wanted = backend or os.environ.get("CANN_MLA_BACKEND") or ("cann" if home else "auto")
        if wanted not in BACKENDS:
            raise ValueError(f"backend {wanted!r}; allowed are {', '.join(BACKENDS)} (CANN_MLA_BACKEND or argument)")
        if _loaded is None:
            _loaded = open_library(wanted, home=None if home is None else Path(home))
        elif wanted != "auto" and wanted != _loaded.backend:
            raise ValueError(
                f"backend {wanted!r} was asked for, but the process has already loaded {_loaded!r}; "
                "one process has one backend, so start another"
            )
        return _loaded


def open_library(backend: str, *, home: Path | None = None) -> Library:
    """Load a backend without making it the one of the process; for :func:`load` and for tools that compare."""
    search = Search(os.environ, home)
    if backend != "sim":
        for installation in search.installations():
            library = Library(
                "cann",
                (installation.runtime, installation.meta),
                operators=installation.operators,
                custom=installation.custom,
                extras=installation.extras,
                installation=installation,
                includes=installation.includes,
            )
            if (refusal := library._open()) is None:
                library._attempts[:0] = search.attempts
                return library
            search.attempts.append(Attempt(str(installation.home), f"found, but does not load: {refusal}"))
        if backend == "cann":
            raise LibraryNotFoundError(
                "No usable CANN was found.",
                search.attempts,
                "Set ASCEND_HOME_PATH to the folder that holds lib64 and include (CANN's set_env.sh does), "
                "or use the simulator: CANN_MLA_BACKEND=sim",
            )
    return _open_simulator(search)


def _open_simulator(search: Search) -> Library:
    named = os.environ.get("CANN_MLA_SIM_LIBRARY")
    path = Path(named) if named else native_folder() / SIMULATOR
    packages = search.custom_packages()
    library = Library(
        "sim",
        (path,),
        custom=[package / "op_api/lib/libcust_opapi.so" for package in packages],
        extras=[extra for name in SIMULATOR_EXTRAS if (extra := path.with_name(name)).is_file()],
        includes=[package / "op_api/include" for package in packages],
    )
    refusal = library._open()
    library._attempts[:0] = [*search.attempts, Attempt(str(path), f"refused: {refusal}" if refusal else "simulator")]
    if refusal:
        raise LibraryNotFoundError(
            "The simulator could not be loaded.",
            library.search_report,
            "CANN_MLA_SIM_LIBRARY names that file; unset it for the simulator of the package"
            if named
            else "Reinstall the package: pip install .",
        )
    tell_lines(library)
    return library
