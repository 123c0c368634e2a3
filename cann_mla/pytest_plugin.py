"""A plugin for pytest, there wherever cann_mla is installed: tests on the simulator, under its checks.

``--cann-strict`` (or ``cann_strict = true`` in the configuration) runs every test in strict mode and fails it on a
finding; the report shows the finding. A test that breaks a rule on purpose says so::

    @pytest.mark.cann_finds("use-after-destroy")
    def test_a_closed_tensor_is_refused(cann_stream): ...

and then fails if the rule was not broken. Findings to look over go into a file (``--cann-suppressions`` or
``cann_suppressions``), in the form of ``CANN_MLA_SIM_SUPPRESSIONS``.

The fixtures serve any project and load nothing until a test asks for one: ``cann_device``, ``cann_stream``,
``cann_product``, ``cann_no_leaks``. A test's own look at findings is :func:`cann_mla.simulator.watch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import cann_mla
    from cann_mla.simulator import Finding, Watch


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("cann_mla", "CANN on the simulator")
    group.addoption("--cann-strict", action="store_true", help="fail tests that break a rule of CANN, and show how")
    group.addoption("--cann-suppressions", metavar="FILE", help="findings to look over")
    parser.addini("cann_strict", "fail tests that break a rule of CANN", type="bool", default=False)
    parser.addini("cann_suppressions", "file of findings to look over", type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; with strict checks, take part in the tests."""
    config.addinivalue_line("markers", "cann_finds(rule, ...): the test breaks these rules of CANN, and must")
    if config.getoption("--cann-strict") or config.getini("cann_strict"):
        config.pluginmanager.register(StrictTests(config), "cann_mla_strict")


class StrictTests:
    """Watches each test, its fixtures included, and fails the phase in which it broke a rule."""

    def __init__(self, config: pytest.Config) -> None:
        import cann_mla
        from cann_mla import simulator

        library = cann_mla.load()
        if library.backend != "sim":
            raise pytest.UsageError(
                f"--cann-strict needs the simulator and {library!r} is loaded; set CANN_MLA_BACKEND=sim"
            )
        files = [config.getoption("--cann-suppressions"), *config.getini("cann_suppressions")]
        for file in filter(None, files):
            try:
                simulator.load_suppressions(file)
            except cann_mla.CannError as error:
                raise pytest.UsageError(error.text) from error
        self._watch: Watch | None = None
        self._told = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch a test from its setup to its teardown."""
        from cann_mla import simulator

        with simulator.watch() as self._watch:
            self._told = 0
            result = yield
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
        """Let what was found in a phase fail it."""
        report: pytest.TestReport = yield  # type: ignore[assignment]
        found = [f for f in self._watch.findings if not f.advice] if self._watch else []
        fresh, self._told = found[self._told :], len(found)
        wanted = {rule for marker in item.iter_markers("cann_finds") for rule in marker.args}
        if report.passed and (text := self._complaint(call.when, fresh, found, wanted)):
            report.outcome, report.longrepr = "failed", text
        return report  # type: ignore[return-value]

    @staticmethod
    def _complaint(when: str, fresh: list[Finding], found: list[Finding], wanted: set[str]) -> str:
        unwanted = [finding for finding in fresh if finding.rule not in wanted]
        if unwanted:
            return "\n\n".join([f"broke {len(unwanted)} of CANN's rules:", *map(str, unwanted)])
        missing = wanted - {finding.rule for finding in found} if when == "call" else set()
        return f"was to break {', '.join(sorted(missing))} and did not" if missing else ""


@pytest.fixture
def cann_device() -> Iterator[cann_mla.Device]:
    """Device 0, current in this thread; closed behind the test with all that is left on it."""
    import cann_mla

    with cann_mla.Device(0) as device:
        yield device


@pytest.fixture
def cann_stream(cann_device: cann_mla.Device) -> Iterator[cann_mla.Stream]:
    """A stream on device 0."""
    import cann_mla

    with cann_mla.Stream() as stream:
        yield stream


@pytest.fixture
def cann_product() -> Iterator[Callable[[str], None]]:
    """A function that lets the simulator be ``Ascend910B``, ``Ascend910_93`` or ``Ascend950`` for this test."""
    import cann_mla

    library = cann_mla.load()
    if library.backend != "sim":
        pytest.skip(f"{library!r} is what it is; only the simulator changes its product")
    before = library.product

    def become(product: str) -> None:
        if library.cannMlaSimSetSoc(product.encode()):
            raise ValueError(f"{product} is no product; it is Ascend910B, Ascend910_93 or Ascend950")

    yield become
    if before is not None:
        become(before)


@pytest.fixture
def cann_no_leaks() -> Iterator[None]:
    """Fails a test that leaves handles or memory behind which it made; strict mode is on meanwhile."""
    from cann_mla import simulator

    with simulator.watch(leaks=True) as watch:
        yield
    found = [finding for finding in watch.findings if not finding.advice]
    if found:
        pytest.fail("\n\n".join(map(str, found)), pytrace=False)
