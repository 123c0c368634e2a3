"""Headers in the form in which this package ships them.

``trimmed`` writes a header anew, for an operator that is to be added. ``updated`` brings a shipped header up
to a newer CANN and leaves alone what did not change, so that the difference is what a reviewer has to read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from cann_mla.headers.aggregates import declare_member
from cann_mla.headers.cdef import declaration_text
from cann_mla.headers.compare import differences
from cann_mla.headers.files import HeaderSet
from cann_mla.headers.model import Constant, Declaration, EnumType, Header, RecordType, Signature, declare
from cann_mla.headers.parser import parse

_WIDTH = 110
_VISIBILITY = "ACL_FUNC_VISIBILITY "
_FRAME = """/* {comment} */
#ifndef {guard}
#define {guard}

{includes}
#ifdef __cplusplus
extern "C" {{
#endif

{body}

#ifdef __cplusplus
}}
#endif

#endif
"""


def trimmed(header: Header, name: str, release: str | None = None) -> str:
    """A header as it would be shipped: declarations only, one prototype a paragraph.

    Parameters
    ----------
    header : Header
        As read from a CANN installation or an operator repository.
    name : str
        Path below ``headers/`` (``aclnnop/aclnn_mm.h``), from which the include guard is made.
    release : str, optional
        Noted behind each prototype that has no such remark.
    """
    functions = header.signatures
    runs = [s.name for s in functions if not s.name.endswith("WorkspaceSize")]
    comment = ", ".join(runs) or PurePosixPath(name).stem
    guard = "CANN_MLA_" + re.sub(r"\W", "_", name).upper()
    paragraphs = [
        _VISIBILITY + prototype_text(d, release) if isinstance(d, Signature) else block_text(d)
        for d in header.declarations
        if not (isinstance(d, Constant) and d.name.endswith(("_H", "_H_")))
    ]
    includes = "".join(f'#include "{i}"\n' for i in _shipped_includes(header.includes))
    body = "\n\n".join(paragraphs)
    return _FRAME.format(comment=comment, guard=guard, includes=includes, body=body)


def _shipped_includes(includes: Iterable[str]) -> list[str]:
    """Of the includes of a CANN header, the shipped ones that bring what an operator header needs."""
    kept = [i for i in includes if i.startswith(("acl/", "hccl/", "atb/"))]
    return ["aclnn/aclnn_base.h"] if any("aclnn" in i for i in includes) or not kept else kept


def prototype_text(signature: Signature, release: str | None = None) -> str:
    """A prototype as it is laid out in ``headers/``, with the releases behind it."""
    since, until = signature.since or release, signature.until
    words = [f"since {since}"] * (since is not None) + [f"until {until}"] * (until is not None)
    tail = f"; /* {' '.join(words)} */" if words else ";"
    line = signature.prototype() + tail
    if len(_VISIBILITY) + len(line) <= _WIDTH:
        return line
    lines, current = [], "   "
    texts = [p.declaration for p in signature.parameters] + ["..."] * signature.variadic
    for index, text in enumerate(texts):
        piece = text + ("," if index < len(texts) - 1 else ");")
        if len(current) + 1 + len(piece) > _WIDTH - 2:
            lines.append(current)
            current = "   "
        current += " " + piece
    lines.append(current.removesuffix(";") + tail)
    return f"{declare(signature.restype, signature.name)}(\n" + "\n".join(lines)


def block_text(declaration: Declaration) -> str:
    """Any declaration but a prototype, as it is laid out in ``headers/``."""
    if isinstance(declaration, EnumType):
        lines = [f"    {name} = {value}," for name, value in declaration.values]
    elif isinstance(declaration, RecordType) and declaration.fields is not None:
        lines = [f"    {declare_member(name, type_text)};" for name, type_text in declaration.fields]
    else:
        return declaration_text(declaration)
    kind = "enum" if isinstance(declaration, EnumType) else declaration.kind
    return "\n".join([f"typedef {kind} {declaration.name} {{", *lines, f"}} {declaration.name};"])


def updated(
    text: str, name: str, installed: HeaderSet, release: str, add: Collection[str] = ()
) -> tuple[str, list[str]]:
    """Bring a shipped header up to the headers of a CANN installation.

    Prototypes, enums and structs that the installation declares in another form are replaced; all other text,
    comments included, stays. Nothing is removed, and nothing is added unasked: what the installation lacks
    and what it has besides is named in the remarks.

    Parameters
    ----------
    text : str
        The shipped header.
    name : str
        Its path below ``headers/``.
    installed : HeaderSet
        Headers of the installation.
    release : str
        Its release; noted behind a prototype whose arguments changed and behind what is new.
    add : collection of str
        Functions of the installed header of that path that are to be added.

    Returns
    -------
    tuple
        The new text and a remark for each change and each declaration that was not found.
    """
    header = parse(text, name, cplusplus=False)
    theirs = {d.name: d for h in installed.headers for d in h.declarations}
    pieces: list[tuple[int, int, str]] = []
    remarks: list[str] = []
    for mine in header.declarations:
        other = theirs.get(mine.name)
        if mine.name not in header.spans:
            remarks += _constant_remark(mine, installed)
        elif other is None:
            if isinstance(mine, Signature):
                remarks.append(f"{mine.name}: not in the installed headers, kept")
        else:
            start, end = header.spans[mine.name]
            if isinstance(mine, Signature):
                end = text.find("\n", end) if "\n" in text[end:] else len(text)
            new = _replacement(mine, other, release, text[start:end])
            if new is not None:
                pieces.append((start, end, new))
                remarks.append(f"{mine.name}: replaced")
    for start, end, new in sorted(pieces, reverse=True):
        text = text[:start] + new + text[end:]
    known = {s.name for s in header.signatures}
    besides = [s for h in installed.headers if h.path.endswith(f"/{name}") for s in h.signatures if s.name not in known]
    for signature in besides:
        wanted = signature.name in add
        remarks.append(f"{signature.name}: {'added' if wanted else 'not shipped, --add would take it over'}")
        if wanted:
            text = _with_function(text, _VISIBILITY + prototype_text(signature, release))
    return text, remarks


def _with_function(text: str, prototype: str) -> str:
    """Put a prototype behind the last declaration of a header."""
    end = text.rfind("\n#ifdef __cplusplus\n}")
    return f"{text[:end]}\n{prototype}\n{text[end:]}" if end >= 0 else f"{text}\n{prototype}\n"


def _replacement(mine: Declaration, other: Declaration, release: str, text: str) -> str | None:
    """New text for a declaration, or None if it says the same."""
    if isinstance(mine, Signature) and isinstance(other, Signature):
        return prototype_text(other, release) if differences(mine, other) else None
    if isinstance(mine, EnumType) and isinstance(other, EnumType):
        known, theirs = dict(mine.values), dict(other.values)
        lines = "".join(f"    {n} = {v}, /* since {release} */\n" for n, v in other.values if n not in known)
        if any(theirs.get(n, v) != v for n, v in mine.values):
            return block_text(EnumType(mine.name, other.values, 0))
        end = text.rfind("}")
        return text[:end] + lines + text[end:] if lines else None
    if isinstance(mine, RecordType) and isinstance(other, RecordType):
        changed = other.fields is not None and mine.fields != other.fields
        return block_text(RecordType(mine.name, other.kind, other.fields, 0)) if changed else None
    return None


def _constant_remark(mine: Declaration, installed: HeaderSet) -> list[str]:
    value = installed.constants.get(mine.name)
    if not isinstance(mine, Constant) or value is None or value == mine.value:
        return []
    return [f"{mine.name}: {value} in the installed headers, {mine.value} here; change it by hand"]
