"""Which findings of a report are about which program of the catalogue."""

from __future__ import annotations

import re
from typing import Any

from catalogue import Defect, Thing

Finding = dict[str, Any]


def places(origin: Finding | None) -> list[tuple[str, int]]:
    """Files and lines of an origin, innermost first."""
    found = (re.search(r"(\S+\.py):(\d+)", text) for text in (origin or {}).get("where", []))
    return [(match[1], int(match[2])) for match in found if match]


def of_program(defect: Defect, findings: list[Finding]) -> list[Finding]:
    """The findings that point into a program."""
    return [
        f for f in findings if any(defect.holds(*place) for part in ("made", "broken") for place in places(f[part]))
    ]


def subject(finding: Finding) -> Thing | None:
    """What a finding is about."""
    return Thing(finding["object"]["kind"], finding["made"]["api"]) if finding["object"] else None
