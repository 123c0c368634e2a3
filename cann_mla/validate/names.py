"""Misspelt names: what they were probably meant to be, and arrays of a file that nobody asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from zipfile import is_zipfile

from cann_mla.validate.cases import Case

# Files may hold arrays that a case has no use for; only a name this close to an operand is a slip of the pen.
_SLIP = 0.85


def near(name: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.6) -> list[str]:
    """Names of `known` that `name` may stand for, the likeliest first; case does not matter."""
    lower: dict[str, str] = {}
    for candidate in known:
        lower.setdefault(candidate.lower(), candidate)
    found = get_close_matches(name.lower(), lower, count, cutoff)
    return [lower[n] for n in found]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean X or Y?``, or nothing where no name is near."""
    found = near(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def unused_arrays(case: Case, names: Collection[str], *, slips_only: bool = False) -> list[str]:
    """Those of `names` that are no operand of the case, each with the operand it may stand for.

    Parameters
    ----------
    names
        The arrays of one file. An operand that the file holds under its own name is not suggested.
    slips_only
        Leave out the names that are near no operand: a file beside a case may hold more than the case uses.
    """
    operands = [name for name, _ in case.specs()]
    free = [name for name in operands if name not in names]
    texts = []
    for name in names:
        if name in operands:
            continue
        found = near(name, free, count=1, cutoff=_SLIP if slips_only else 0.6)
        if found or not slips_only:
            texts.append(f"{name} (did you mean {found[0]}?)" if found else name)
    return texts


def case_file_slips(case: Case) -> Iterator[str]:
    """A line for each file beside the case that holds an array whose name is nearly an operand's."""
    from cann_mla.validate.arrays import npz_names

    for file in (*case.inputs_npz, *([case.expected_npz] if case.expected_npz else [])):
        path = Path(case.folder / file)
        # A file that is not there or is no archive makes the case an error; that is not said here.
        texts = unused_arrays(case, npz_names(path), slips_only=True) if is_zipfile(path) else []
        if texts:
            yield f"{file}: not used: {', '.join(texts)}"
