"""Runs programs of the catalogue one after the other: ``python -m catalogue wrong|right|legal [NAME ...]``."""

from __future__ import annotations

import sys

import cann_mla
from cann_mla import c
from catalogue import CATALOGUE
from catalogue.habits import HABITS
from catalogue.habits_of_order import HABITS_OF_ORDER


def main() -> None:
    """Initialise ACL, run the programs on device 0, give everything back."""
    which, names = sys.argv[1], sys.argv[2:]
    cann_mla.load("sim")
    c.aclInit(c.NULL)
    c.aclrtSetDevice(0)
    for program in HABITS + HABITS_OF_ORDER if which == "legal" else [defect.program for defect in CATALOGUE]:
        if not names or program.__name__ in names:
            program() if which == "legal" else program(which == "wrong")
    c.aclrtResetDevice(0)
    c.aclFinalize()


main()
