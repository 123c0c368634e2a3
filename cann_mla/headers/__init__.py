"""C headers to signatures: nothing but the standard library, no compiler, no library loaded.

The shipped headers (``headers/``, installed as ``cann_mla/include``) are the only place of a prototype. This
package reads them, and any other aclnn or ATB header, as installed or as it lies in an operator repository.

Reading
    ``read(paths, known=...)`` reads files as one unit, a :class:`HeaderSet` with ``functions``,
    ``operators``, ``constants`` and ``cdef()``. What cannot be read raises :class:`HeaderError` (file, line,
    text, reason); ``scan(path)`` returns what could be read of one file together with the problems. A
    :class:`Signature` has ``name``, ``restype``, ``parameters`` (each with ``name``, ``type``, ``role``,
    ``optional``), ``header``, ``line``, ``since`` and ``until``; an :class:`Operator` has ``name``,
    ``get_workspace`` and ``run``.
Shipped headers
    ``shipped.load()`` is their :class:`HeaderSet`, ``shipped.legacy()`` the superseded forms of prototypes,
    ``shipped.root()`` the folder.
For cffi
    ``HeaderSet.cdef()`` gives ``Cdef(text, functions)``: C text for ``FFI.cdef`` and the prototypes in
    order. Types of the known headers are not declared again, so that a foreign header can follow in the same
    ``FFI``.

>>> from cann_mla.headers import shipped
>>> operator = shipped.load().operators["aclnnMm"]
>>> [(p.name, p.role.value) for p in operator.get_workspace.operands]
[('self', 'input'), ('mat2', 'input'), ('out', 'output'), ('cubeMathType', 'attribute')]

A remark ``/* since R */``, ``/* until R */`` or both behind a prototype fills ``since`` and ``until``.
"""

from cann_mla.headers.cdef import Cdef, cdef
from cann_mla.headers.files import HeaderSet, read, read_header, scan
from cann_mla.headers.model import (
    AliasType,
    Constant,
    EnumType,
    Header,
    HeaderError,
    Ignored,
    Operator,
    Parameter,
    Problem,
    RecordType,
    Role,
    Signature,
)
from cann_mla.headers.parser import parse
from cann_mla.headers.roles import is_phase_one, is_phase_two, operator_name, pair, with_roles

__all__ = [
    "AliasType",
    "Cdef",
    "Constant",
    "EnumType",
    "Header",
    "HeaderError",
    "HeaderSet",
    "Ignored",
    "Operator",
    "Parameter",
    "Problem",
    "RecordType",
    "Role",
    "Signature",
    "cdef",
    "is_phase_one",
    "is_phase_two",
    "operator_name",
    "pair",
    "parse",
    "read",
    "read_header",
    "scan",
    "with_roles",
]
