"""What can go wrong, said so that the reader knows what to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_mla.discovery import Attempt
    from cann_mla.libraries import Library


class ClosedError(RuntimeError):
    """An object was used after ``close()``. Nothing was passed to C."""


class LibraryNotFoundError(RuntimeError):
    """Neither CANN nor the simulator could be loaded as asked.

    Attributes
    ----------
    attempts : tuple of Attempt
        Every place that was looked at, with what was there.
    """

    def __init__(self, summary: str, attempts: Iterable[Attempt], advice: str) -> None:
        self.attempts = tuple(attempts)
        places = "\n".join(f"  - {attempt}" for attempt in self.attempts)
        super().__init__(f"{summary}\nLooked at:\n{places}\n{advice}")


class SymbolNotFoundError(RuntimeError):
    """The loaded library has no function of that name. Raised when the function is called.

    Attributes
    ----------
    symbol : str
    since : str or None
        First CANN release known to have the function.
    """

    def __init__(self, symbol: str, searched: Iterable[str], since: str | None, loaded: str) -> None:
        self.symbol = symbol
        self.since = since
        release = f"CANN has it since {since}" if since else "CANN 8.1 already has it"
        super().__init__(
            f"{symbol} is in none of the loaded libraries ({', '.join(searched)}); {release}, and loaded is {loaded}"
        )


@dataclass(frozen=True)
class Argument:
    """One argument of a failed call, as shown in the table of a :class:`CannError`."""

    name: str
    role: str
    value: str


class CannError(RuntimeError):
    """A C function returned a status other than success.

    Attributes
    ----------
    api : str
        Name of the C function.
    phase : str
        What the call was for: ``"GetWorkspaceSize"``, ``"launch"``, ``"synchronize"``, ...
    status : int
        The status as returned.
    status_name : str
        Its name in the headers, or ``"unknown status"``.
    text : str
        What ``aclGetRecentErrMsg`` said in the failing thread right after the call; empty if nothing.
    arguments : tuple of Argument
        The arguments of the call, for operator calls.
    launches : tuple of str
        For faults that surface at a synchronisation: the operators queued since the last good one.
    """

    def __init__(
        self,
        api: str,
        phase: str,
        status: int,
        status_name: str,
        text: str = "",
        arguments: Sequence[Argument] = (),
        launches: Sequence[str] = (),
        advice: str = "",
    ) -> None:
        self.api = api
        self.phase = phase
        self.status = status
        self.status_name = status_name
        self.text = text
        self.arguments = tuple(arguments)
        self.launches = tuple(launches)
        parts = [f"{api} ({phase}) returned {status} ({status_name})"]
        if text:
            parts.append(text.strip())
        if advice:
            parts.append(advice)
        if launches:
            counted = Counter(launches)
            queued = ", ".join(f"{name} x {count}" if count > 1 else name for name, count in counted.items())
            parts.append(f"queued on the stream since the last good synchronisation: {queued}")
        if arguments:
            parts.append(argument_table(arguments))
        super().__init__("\n".join(parts))


def argument_table(arguments: Sequence[Argument]) -> str:
    """Arguments as aligned lines of name, role and value."""
    names = max(len(a.name) for a in arguments)
    roles = max(len(a.role) for a in arguments)
    return "\n".join(f"  {a.name:{names}}  {a.role:{roles}}  {a.value}" for a in arguments)


@lru_cache
def _status_names(prefixes: tuple[str, ...]) -> dict[int, str]:
    from cann_mla.binding import abi

    names: dict[int, str] = {}
    lib = abi().lib
    for name in dir(lib):
        if name.startswith(prefixes):
            value = getattr(lib, name)
            if isinstance(value, int):
                names.setdefault(value, name)
    return names


def status_name(status: int, api: str = "acl") -> str:
    """Name of a status in the headers.

    Parameters
    ----------
    status : int
    api : str
        The function that returned it: ATB and HCCL number their statuses on their own.
    """
    if api.startswith("Atb"):
        prefixes: tuple[str, ...] = ("ATB_",)
    elif api.startswith("Hccl"):
        prefixes = ("HCCL_SUCCESS", "HCCL_E_")
    else:
        prefixes = ("ACL_ERROR_", "ACLNN_ERR_", "ACL_SUCCESS")
    return _status_names(prefixes).get(status, "unknown status")


def failure(library: Library, api: str, phase: str, status: int, **details: Any) -> CannError:
    """Build the exception for a failed call; takes the error text of the calling thread, so call it at once."""
    text = library.recent_error_text()
    return CannError(api, phase, status, status_name(status, api), text, **details)


def null_handle(library: Library, api: str) -> CannError:
    """Build the exception for a function that makes a handle and returned null."""
    return CannError(api, "create", -1, "null handle", library.recent_error_text())
