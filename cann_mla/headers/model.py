"""What a header says: signatures, types, constants, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class Role(str, Enum):
    """What a parameter is for. ``ARGUMENT`` is any parameter of a function that is no operator phase."""

    INPUT = "input"
    OUTPUT = "output"
    INPLACE = "inplace"
    ATTRIBUTE = "attribute"
    WORKSPACE_SIZE = "workspace_size"
    EXECUTOR = "executor"
    WORKSPACE = "workspace"
    STREAM = "stream"
    CONTEXT = "context"
    ARGUMENT = "argument"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a C function.

    Parameters
    ----------
    name : str
        Name in the header; ``arg0``, ``arg1``... where the header gives none.
    type : str
        C type in normal form (``const aclTensor *``). Arrays are pointers, and the ``const`` of a parameter
        that is passed by value is dropped, as C does.
    role : Role
        What the parameter is for.
    optional : bool
        Whether null (for a pointer) is a documented value.
    default : str or None
        Text of a C++ default argument.
    """

    name: str
    type: str
    role: Role = Role.ARGUMENT
    optional: bool = False
    default: str | None = None

    @property
    def declaration(self) -> str:
        """The parameter as C text: ``const aclTensor *tokenX``."""
        return declare(self.type, self.name)

    @property
    def pointee(self) -> str | None:
        """Name of the type one ``*`` away without ``const`` (``aclTensor``), or None if not such a
        pointer.
        """
        if not self.type.endswith("*"):
            return None
        return self.type[:-1].strip().removeprefix("const ")


def declare(type_text: str, name: str) -> str:
    """Write a C declaration: the name goes behind the type, or inside it for a function pointer."""
    if "(*)" in type_text:
        return type_text.replace("(*)", f"(*{name})", 1)
    base, bracket, size = type_text.partition("[")
    base = base.rstrip()
    gap = "" if base.endswith("*") else " "
    return f"{base}{gap}{name}{bracket}{size}"


@dataclass(frozen=True, slots=True)
class Signature:
    """A function prototype.

    Parameters
    ----------
    name : str
        Symbol.
    restype : str
        C type of the result.
    parameters : tuple of Parameter
        In C order.
    header : str
        File the prototype was read from.
    line : int
        Its line (of the name).
    since, until : str or None
        First CANN release that has the function, and the first that has it no longer in this form.
    variadic : bool
        Whether the parameters end with ``...``.
    """

    name: str
    restype: str
    parameters: tuple[Parameter, ...]
    header: str = ""
    line: int = 0
    since: str | None = None
    until: str | None = None
    variadic: bool = False

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(name)

    @property
    def operands(self) -> tuple[Parameter, ...]:
        """The parameters a caller of an operator gives: all but workspace size, executor and context."""
        hidden = (Role.WORKSPACE_SIZE, Role.EXECUTOR, Role.CONTEXT)
        return tuple(p for p in self.parameters if p.role not in hidden)

    def with_role(self, *roles: Role) -> tuple[Parameter, ...]:
        """The parameters that have one of the roles, in C order."""
        return tuple(p for p in self.parameters if p.role in roles)

    def prototype(self) -> str:
        """The prototype as one line of C, without the final semicolon."""
        texts = [p.declaration for p in self.parameters]
        if self.variadic:
            texts.append("...")
        return f"{declare(self.restype, self.name)}({', '.join(texts) or 'void'})"


@dataclass(frozen=True, slots=True)
class Operator:
    """The two phases of an operator.

    Parameters
    ----------
    name : str
        C name of the operator, which is the name of phase two (``aclnnMatmul``, ``AtbRingMLA``).
    get_workspace : Signature
        Phase one.
    run : Signature
        Phase two.
    get_max_workspace : Signature or None
        The variant of phase one that answers with the largest workspace (graph capture), where there is one.
    """

    name: str
    get_workspace: Signature
    run: Signature
    get_max_workspace: Signature | None = None


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum with the value of each enumerator."""

    name: str
    values: tuple[tuple[str, int], ...]
    line: int


@dataclass(frozen=True, slots=True)
class RecordType:
    """A struct or union. ``fields`` is None for a type that is only declared; else name and C type of
    each.
    """

    name: str
    kind: str
    fields: tuple[tuple[str, str], ...] | None
    line: int


@dataclass(frozen=True, slots=True)
class AliasType:
    """``typedef type name;``"""

    name: str
    type: str
    line: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number with a name: ``#define``, ``static const int`` or ``constexpr``."""

    name: str
    value: int
    line: int


Declaration = EnumType | RecordType | AliasType | Constant | Signature


@dataclass(frozen=True, slots=True)
class Ignored:
    """Text that was read and understood, and that no C caller can use (an inline function, a class...)."""

    what: str
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Text that could not be read."""

    header: str
    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"{self.header}:{self.line}: {self.why}: {self.text}"


class HeaderError(ValueError):
    """A header could not be read.

    Parameters
    ----------
    problems : iterable of Problem
        Everything that was refused, with file, line, text and reason.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        shown = [str(p) for p in self.problems[:10]]
        if len(self.problems) > 10:
            shown.append(f"... and {len(self.problems) - 10} more")
        super().__init__("\n".join(shown))


@dataclass(slots=True)
class Header:
    """All that was read from one header.

    ``declarations`` keeps the order of the text, and ``spans`` says by name where in it each stands (offset
    of the first character and of the one behind the last, without decoration in front). ``ignored`` and
    ``problems`` hold the rest of it: together the three account for every declaration, so that nothing is
    lost in silence.
    """

    path: str
    declarations: list[Declaration] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def signatures(self) -> list[Signature]:
        """The function prototypes, in the order of the text."""
        return [d for d in self.declarations if isinstance(d, Signature)]

    @property
    def constants(self) -> dict[str, int]:
        """Every named number: constants and enumerators."""
        found: dict[str, int] = {}
        for declaration in self.declarations:
            if isinstance(declaration, Constant):
                found[declaration.name] = declaration.value
            elif isinstance(declaration, EnumType):
                found.update(declaration.values)
        return found
