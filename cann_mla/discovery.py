"""Where CANN is installed, which of its libraries belong together, and what was tried to find out.

Nothing is loaded here. Variables, paths and the order of the search are those of CANN's own set_env.sh and of
its torch adapters: ``ASCEND_HOME_PATH`` and ``ASCEND_TOOLKIT_HOME``, then the default folders; custom operator
packages from ``ASCEND_CUSTOM_OPP_PATH`` and ``vendors/config.ini``.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os.path import isdir, isfile, realpath
from pathlib import Path

HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
DEFAULT_HOMES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "~/Ascend/cann",
    "~/Ascend/ascend-toolkit/latest",
)
RUNTIMES = ("libacl_rt.so", "libascendcl.so")
META = "libnnopbase.so"
AGGREGATE = "libopapi.so"
PER_REPOSITORY = "libopapi_transformer.so"
CUSTOM = "libcust_opapi.so"
ATB = "lib/libatb.so"
DEFAULT_ATB = Path("/usr/local/Ascend/nnal/atb")
OP_API = "opp/built-in/op_impl/ai_core/tbe/op_api"
_STAGES = {"alpha": 0, "beta": 1, "rc": 2}


@dataclass(frozen=True)
class Attempt:
    """One place that was looked at.

    Attributes
    ----------
    place : str
        The folder or file, and the variable that named it.
    outcome : str
        What was there, and why it was taken or refused.
    """

    place: str
    outcome: str

    def __str__(self) -> str:
        return f"{self.place}: {self.outcome}"


@dataclass(frozen=True)
class Installation:
    """The files of one CANN installation that may be loaded together.

    Attributes
    ----------
    home : Path
        Its root folder, as named.
    version : str or None
        Release, such as ``"8.5.0"``; None if no file tells.
    runtime, meta : Path
        The library with ``aclrt*``, and the one with ``aclCreateTensor``.
    operators : tuple of Path
        The built-in aclnn operators: the libraries by repository if there are any, else the aggregate
        ``libopapi.so``, and never both.
    custom : tuple of Path
        ``libcust_opapi.so`` of the custom operator packages, in order of priority.
    extras : tuple of Path
        Libraries with other C functions (HCCL, compile options, ATB) that are loaded when one is called.
    includes : tuple of Path
        Folders that hold ``aclnnop``; custom packages first.
    """

    home: Path
    version: str | None
    runtime: Path
    meta: Path
    operators: tuple[Path, ...]
    custom: tuple[Path, ...] = ()
    extras: tuple[Path, ...] = ()
    includes: tuple[Path, ...] = ()


@dataclass
class Search:
    """A search for CANN in an environment, with the record of all it looked at.

    Parameters
    ----------
    environment : mapping
        Environment variables.
    home : path, optional
        Look here and nowhere else.
    atb_folder : path
        Where ATB is looked for unless ``ATB_HOME_PATH`` names it.
    """

    environment: Mapping[str, str]
    home: Path | None = None
    atb_folder: Path = DEFAULT_ATB
    attempts: list[Attempt] = field(default_factory=list)

    def installations(self) -> list[Installation]:
        """Every usable installation, the one to prefer first; what was refused is in ``attempts``."""
        found = []
        seen: set[str] = set()
        for origin, home in self._homes():
            if (real := realpath(home)) in seen:
                continue
            seen.add(real)
            if (installation := self._examine(origin, home)) is not None:
                found.append(installation)
        return found

    def _homes(self) -> Iterator[tuple[str, Path]]:
        if self.home is not None:
            yield "argument home", self.home
            return
        for variable in HOME_VARIABLES:
            if value := self.environment.get(variable):
                yield variable, Path(value)
            else:
                self.attempts.append(Attempt(variable, "not set"))
        for path in DEFAULT_HOMES:
            yield "default folder", Path(path).expanduser()

    def _examine(self, origin: str, home: Path) -> Installation | None:
        place = f"{home} ({origin})"
        if not isdir(home):
            self.attempts.append(Attempt(place, "no such folder"))
            return None
        folders = [home / "lib64", home / f"{platform.machine()}-linux" / "lib64"]
        folders = [folder for folder in folders if isdir(folder)]
        runtime = _first(folders, *RUNTIMES)
        meta = _first(folders, META)
        operators = _operator_libraries([*folders, home / OP_API / "lib/linux" / platform.machine()])
        missing = [
            name
            for name, value in (
                (" or ".join(RUNTIMES), runtime),
                (META, meta),
                (f"{PER_REPOSITORY} or {AGGREGATE}", operators),
            )
            if not value
        ]
        if runtime is None or meta is None or missing:
            where = " or ".join(map(str, folders)) or f"{home}/lib64, which does not exist"
            self.attempts.append(Attempt(place, f"refused: no {', no '.join(missing)} in {where}"))
            return None
        packages = self.custom_packages(home)
        version, outcome = installed_version(home), "CANN of unknown version"
        if version is not None:
            try:
                release_key(version)
                outcome = f"CANN {version}"
            except ValueError as error:
                version, outcome = None, f"{outcome}: {error}"
        self.attempts.append(Attempt(place, outcome))
        atb = self._atb_home()
        return Installation(
            home=home,
            version=version,
            runtime=runtime,
            meta=meta,
            operators=operators,
            custom=tuple(package / "op_api/lib" / CUSTOM for package in packages),
            extras=_extras(folders, atb),
            includes=tuple(
                folder
                for folder in (
                    *(package / "op_api/include" for package in packages),
                    home / "include",
                    home / f"{platform.machine()}-linux" / "include",
                    home / OP_API / "include",
                    *([atb / "include"] if atb else []),
                )
                if isdir(folder)
            ),
        )

    def custom_packages(self, home: Path | None = None) -> list[Path]:
        """Folders of the custom operator packages that hold a library, in order of priority.

        ``ASCEND_CUSTOM_OPP_PATH`` comes first, then the ``load_priority`` line of ``vendors/config.ini`` below
        ``ASCEND_OPP_PATH``, or below ``opp`` of the installation.
        """
        named = self.environment.get("ASCEND_CUSTOM_OPP_PATH", "").split(":")
        places = [("ASCEND_CUSTOM_OPP_PATH", Path(folder)) for folder in named if folder]
        opp = self.environment.get("ASCEND_OPP_PATH")
        vendors = Path(opp) / "vendors" if opp else home / "opp/vendors" if home else None
        if vendors is not None:
            config = vendors / "config.ini"
            places += [(str(config), vendors / name) for name in _load_priority(config)]
        packages = []
        for origin, folder in places:
            library = folder / "op_api/lib" / CUSTOM
            if isfile(library):
                packages.append(folder)
                self.attempts.append(Attempt(f"{folder} ({origin})", "custom operator package"))
            else:
                self.attempts.append(Attempt(f"{folder} ({origin})", f"refused: no {library}"))
        return packages

    def _atb_home(self) -> Path | None:
        """Root folder of ATB: what its set_env.sh names, else the best in the default folder."""
        if named := self.environment.get("ATB_HOME_PATH"):
            candidates = [Path(named)]
        else:
            self.attempts.append(Attempt("ATB_HOME_PATH", "not set"))
            candidates = sorted(self.atb_folder.glob("*/atb/cxx_abi_[01]"), key=_atb_preference, reverse=True)
        for home in candidates:
            found = isfile(home / ATB)
            origin = " (ATB_HOME_PATH)" if named else ""
            self.attempts.append(Attempt(f"{home}{origin}", "ATB" if found else f"refused: no {home / ATB}"))
            if found:
                return home
        if not candidates:
            self.attempts.append(Attempt(str(self.atb_folder), "no ATB, so none of its operators"))
        return None


def _text(path: Path) -> str:
    """A small text file of an installation; bytes that are no UTF-8 match nothing that is searched for."""
    return path.read_text(encoding="utf-8", errors="replace")


def _extras(folders: list[Path], atb: Path | None) -> tuple[Path, ...]:
    places = [folder / name for folder in folders for name in ("libhccl.so", "libacl_op_compiler.so")]
    return tuple(path for path in [*places, *([atb / ATB] if atb else [])] if isfile(path))


def _atb_preference(home: Path) -> tuple[bool, bool, tuple[int, ...], str]:
    """The newer C++ ABI, which is what set_env.sh takes too unless torch wants the other; then the version."""
    version = home.parents[1].name
    try:
        key = release_key(version)
    except ValueError:
        key = ()
    return home.name.endswith("1"), version == "latest", key, version


def _first(folders: list[Path], *names: str) -> Path | None:
    for name in names:
        for folder in folders:
            if isfile(folder / name):
                return folder / name
    return None


def _operator_libraries(folders: list[Path]) -> tuple[Path, ...]:
    """One family of operator libraries: CANN forbids to mix the aggregate with those by repository."""
    for folder in folders:
        if isfile(folder / PER_REPOSITORY):
            return tuple(sorted(folder.glob("libopapi_*.so")))
    aggregate = _first(folders, AGGREGATE)
    return (aggregate,) if aggregate else ()


def _load_priority(config: Path) -> list[str]:
    if not isfile(config):
        return []
    line = re.search(r"^\s*load_priority\s*=(.*)$", _text(config), re.MULTILINE)
    return [name.strip() for name in line.group(1).split(",") if name.strip()] if line else []


def installed_version(home: Path) -> str | None:
    """Release of the CANN in a folder, from the files its packages leave there."""
    sources = [
        (home / "version.cfg", r"^(?:toolkit|runtime|opp)\w*_running_version=\[(?:[^:\]]*:)?([^\]]+)\]"),
        (home / f"{platform.machine()}-linux/ascend_toolkit_install.info", r"^version=(\S+)"),
        (home / "opp/version.info", r"^version_dir=(\S+)"),
        (home / "opp/version.info", r"^Version=(\S+)"),
        *((path, r"^Version=(\S+)") for path in sorted(home.glob("share/info/*/version.info"))),
    ]
    for path, pattern in sources:
        if isfile(path) and (match := re.search(pattern, _text(path), re.MULTILINE)):
            return match.group(1)
    return None


def release_key(version: str) -> tuple[int, ...]:
    """Sort key of a CANN release: ``8.5.0.alpha001 < 8.5.0-beta.1 < 8.5.0.RC1 < 8.5.0 = 8.5``.

    Raises
    ------
    ValueError
        If the text does not start with a number.
    """
    match = re.match(r"(\d+(?:\.\d+)*)[.-]?(?:(alpha|beta|rc)[.-]?(\d*))?", version, re.IGNORECASE)
    if match is None:
        raise ValueError(f"{version!r} is no CANN release; expected something like 8.5.0 or 8.1.RC1")
    numbers = [int(part) for part in match.group(1).split(".")][:3]
    stage = _STAGES[match.group(2).lower()] if match.group(2) else 3
    return (*numbers, *[0] * (3 - len(numbers)), stage, int(match.group(3) or 0))
