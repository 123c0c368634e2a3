"""``cann-mla headers check|diff|trim``: read, compare and trim C headers."""

from cann_mla.headers.commands import add_arguments, run

__all__ = ["add_arguments", "run"]
