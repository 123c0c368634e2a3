"""CANN release names in order: 8.1.RC1, 8.5.0.alpha001, 8.5.0-beta.1, 8.5.0, 9.1.0."""

from __future__ import annotations

import re
from functools import total_ordering

_NAME = re.compile(r"\s*v?(\d{1,4}(?:\.\d{1,4}){0,3})(?:[.-]?(alpha|beta|rc)\.?-?(\d{0,4}))?", re.IGNORECASE)
_STAGES = {"alpha": 0, "beta": 1, "rc": 2, "": 3}


@total_ordering
class Release:
    """A CANN release.

    Parameters
    ----------
    text : str
        As CANN writes it (``version.cfg``, ``aclsysGetCANNVersion``). Alpha, beta and RC come before the
        release of the same number; what follows the stage number is not looked at.

    Raises
    ------
    ValueError
        The text starts with no release.
    """

    def __init__(self, text: str) -> None:
        match = _NAME.match(text)
        if match is None:
            raise ValueError(f"{text!r} is no CANN release; it looks like 8.1.RC1, 8.5.0-beta.1 or 9.1.0")
        numbers = [int(n) for n in match.group(1).split(".")]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        self.text = text.strip()
        self._key = (tuple(numbers), _STAGES[(match.group(2) or "").lower()], int(match.group(3) or 0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._key == other._key

    def __lt__(self, other: Release) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Release({self.text!r})"
