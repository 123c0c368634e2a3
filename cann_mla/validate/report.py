"""Reports: JSON lines as cases end, and a table for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cann_mla.validate.cases import Case, Skipped, TensorSpec

Record = dict[str, Any]
_STYLE = {"pass": "green", "fail": "bold red", "error": "bold magenta", "skip": "yellow"}
DETAILED = 40  # up to so many cases, every output has its row


class JsonLines:
    """A file that holds one JSON object a line, each on disk before the next case starts."""

    def __init__(self, path: str | Path | None) -> None:
        self._file: IO[str] | None = None
        if path:
            self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by close()

    def write(self, record: Record) -> None:
        """Append one record and flush it."""
        if self._file is not None:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Report:
    """Collects records and prints them: a row an output for few cases, counts and the failures for many."""

    def __init__(self, console: Console, *, show_all: bool = False) -> None:
        self.console, self.show_all = console, show_all
        self.rows: list[tuple[Record, Case | None]] = []
        self.skipped_objects: list[Skipped] = []
        self.counts: Counter[str] = Counter()

    def add(self, record: Record, case: Case | None) -> None:
        """Take the record of a case that has ended."""
        self.counts[record["verdict"]] += 1
        # Of a long run only what is shown is kept: thousands of cases hold thousands of descriptions.
        if self.show_all or record["verdict"] != "pass" or len(self.rows) < DETAILED:
            self.rows.append((record, case))

    @property
    def total(self) -> int:
        """Number of cases so far."""
        return sum(self.counts.values())

    @property
    def failed(self) -> bool:
        """Whether any case failed or erred."""
        return bool(self.counts["fail"] or self.counts["error"])

    def print(self) -> None:
        """Print table, messages and summary."""
        few = self.show_all or self.total <= DETAILED
        shown = self.rows if few else [row for row in self.rows if row[0]["verdict"] != "pass"]
        listed = len(shown)
        if any(record["outputs"] for record, _ in shown):
            self.console.print(_output_table(shown))
        elif any(record["verdict"] in ("pass", "fail") for record, _ in shown):
            listed = listed if self.show_all else min(listed, 10 * DETAILED)
            self.console.print(_status_table(shown[:listed]))
        for text, ids in _messages(shown).items():
            others = f" (and {len(ids) - 1} more)" if len(ids) > 1 else ""
            self.console.print(Text(f"{text[0]} {ids[0]}{others}: {text[1]}"))
        for skipped in self.skipped_objects:
            self.console.print(Text(f"not a case: {skipped.source}: {skipped.reason}", style="dim"))
        self.console.print(self._summary(self.total - listed))

    def _summary(self, left_out: int) -> Text:
        text = Text(f"{self.total} case{'' if self.total == 1 else 's'}: ")
        parts = [(f"{self.counts[v]} {v}", _STYLE[v]) for v in _STYLE if self.counts[v]]
        for index, (part, style) in enumerate(parts or [("nothing to verify", "yellow")]):
            text.append(", " if index else "").append(part, style=style)
        doubtful = sum(1 for r, _ in self.rows if r.get("doubtful") and r["verdict"] in ("fail", "error"))
        if doubtful:
            text.append(f" ({doubtful} of the failures on rows marked doubtful)")
        if left_out:
            text.append(f"; {left_out} not listed above: --all shows every row")
        return text


def _messages(rows: list[tuple[Record, Case | None]]) -> dict[tuple[str, str], list[str]]:
    """(verdict, message) -> ids: cases that end for the same reason share a line."""
    found: dict[tuple[str, str], list[str]] = {}
    for record, _ in rows:
        if record["verdict"] != "pass" and record["message"]:
            found.setdefault((record["verdict"], record["message"]), []).append(record["id"])
    return found


def _output_table(rows: list[tuple[Record, Case | None]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in (
        "case",
        "output",
        "shape",
        "dtype",
        "standard",
        "max abs",
        "max rel",
        "share ok",
        "worst at",
        "verdict",
    ):
        table.add_column(column, justify="right" if column in ("max abs", "max rel", "share ok") else "left")
    for record, case in rows:
        name = record["id"]
        for standard, outputs, verdict in _by_standard(record):
            for output, measured in outputs.items():
                table.add_row(name, *_output_cells(case, output, standard, measured))
                name = ""
            if not outputs:
                table.add_row(name, *[""] * 8, Text(verdict, style=_STYLE[verdict]))
    return table


def _by_standard(record: Record) -> Iterator[tuple[str, Record, str]]:
    if "standards" in record:
        for label, part in record["standards"].items():
            yield label, part["outputs"], part["verdict"]
    else:
        yield record["standard"], record["outputs"], record["verdict"]


def _output_cells(case: Case | None, output: str, standard: str, measured: Record) -> list[Any]:
    spec = dict(case.specs()).get(output) if case else None
    verdict = "pass" if measured.get("ok", False) else "fail"
    return [
        output,
        _shape(spec),
        spec.dtype if spec else "",
        measured.get("standard", standard),
        _number(measured["max_abs"]),
        _number(measured["max_rel"]),
        f"{measured['share_ok']:.6g}",
        ",".join(map(str, measured.get("worst", []))) if measured["max_abs"] else "",
        Text(verdict, style=_STYLE[verdict]),
    ]


def _status_table(rows: list[tuple[Record, Case | None]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("case", "soc", "status", "phase", "expected", "workspace", "verdict"):
        table.add_column(column)
    for record, _ in rows:
        cells = [_text(record[key]) for key in ("id", "soc", "status", "phase", "expected", "workspace")]
        table.add_row(*cells, Text(record["verdict"], style=_STYLE[record["verdict"]]))
    return table


def _shape(spec: TensorSpec | None) -> str:
    return "x".join(map(str, spec.shape)) if spec and spec.shape else "scalar" if spec else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)
