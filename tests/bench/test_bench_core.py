"""The benchmark harness: limits, skips and lines; no speed is asserted."""

import json
import mmap

import pytest

from cann_mla.bench import core
from cann_mla.bench.core import Measurement, SkipError, paired_seconds, peak_growth, seconds
from cann_mla.cli import main


@pytest.mark.parametrize(
    ("value", "limit", "better", "missed"),
    [
        (0.5, 0.4, "higher", False),
        (0.4, 0.4, "higher", False),
        (0.3, 0.4, "higher", True),
        (1.3, 1.3, "lower", False),
        (1.4, 1.3, "lower", True),
        (9.0, None, "lower", False),
        (None, 1.3, "lower", False),
    ],
)
def test_limits(value, limit, better, missed):
    assert Measurement("a", value, "ratio", "b", limit, better).missed is missed


def test_times_count_calls():
    calls = []
    assert seconds(lambda: calls.append(1), repeat=4) >= 0
    assert len(calls) == 5  # one to warm up
    order = []
    paired_seconds(lambda: order.append("a"), lambda: order.append("b"), repeat=2)
    assert order == ["a", "b"] * 3


def test_peak_growth_sees_memory_that_is_gone_again():
    size = 64 << 20

    def touch():
        with mmap.mmap(-1, size) as block:  # not from malloc, for which a sanitizer keeps books of many times the size
            block[::4096] = b"x" * (size // 4096)

    assert size * 0.9 < peak_growth(touch) < size * 3


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A benchmark module of known lines."""
    module = tmp_path / "fake_bench_lines.py"
    module.write_text(
        "from cann_mla.bench.core import Measurement\n"
        "def lines():\n"
        "    yield Measurement('fake/good', 0.6, 'ratio', 'x', 0.5, 'higher', {'n': 1})\n"
        "    yield Measurement('fake/bad', 0.4, 'ratio', 'x', 0.5, 'higher')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(core.BENCHMARKS, "fake", "fake_bench_lines")


def test_lines_and_exit_status(fake, tmp_path, capsys):
    file = tmp_path / "bench.jsonl"
    assert main(["bench", "fake", "--json", str(file)]) == 1
    good, bad = (json.loads(line) for line in file.read_text().splitlines())
    assert good == {
        "name": "fake/good", "value": 0.6, "unit": "ratio", "of": "x", "limit": 0.5, "better": "higher",
        "detail": {"n": 1},
    }  # fmt: skip
    assert bad["name"] == "fake/bad"
    text = capsys.readouterr().out.splitlines()
    assert text[0].endswith("ok")
    assert text[1].endswith("MISSED")


def test_a_benchmark_that_cannot_run_is_skipped(monkeypatch, capsys):
    def lines():
        raise SkipError("no compiler")
        yield

    monkeypatch.setattr("cann_mla.bench.packing.lines", lines)
    assert main(["bench", "packing"]) == 0
    assert "skipped: no compiler" in capsys.readouterr().out


def test_every_benchmark_has_lines():
    import importlib

    for module in core.BENCHMARKS.values():
        assert callable(importlib.import_module(module).lines)
