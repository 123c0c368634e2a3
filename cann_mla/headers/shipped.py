"""The headers that come with this package."""

from __future__ import annotations

from functools import lru_cache

from cann_mla.headers.files import HeaderSet, read_header, root
from cann_mla.headers.model import Signature

__all__ = ["legacy", "load", "root"]

_LEGACY = "legacy"


@lru_cache
def load() -> HeaderSet:
    """Every shipped header as C sees it; without the superseded forms in ``legacy``."""
    base = root()
    names = [path.relative_to(base) for path in sorted(base.rglob("*.h"))]
    return HeaderSet(
        read_header(base / name, name=name.as_posix(), cplusplus=False) for name in names if name.parts[0] != _LEGACY
    )


@lru_cache
def legacy() -> dict[str, tuple[Signature, ...]]:
    """Superseded forms of shipped prototypes, by symbol; ``until`` names the release that replaced each."""
    base = root() / _LEGACY
    found: dict[str, list[Signature]] = {}
    for path in sorted(base.rglob("*.h")):
        name = path.relative_to(base.parent).as_posix()
        for signature in read_header(path, name=name, cplusplus=False).signatures:
            if signature.until is not None:
                found.setdefault(signature.name, []).append(signature)
    return {name: tuple(several) for name, several in found.items()}
