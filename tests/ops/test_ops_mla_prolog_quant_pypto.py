"""Dispatch to the real operator, with modules that stand in for torch, torch_npu and PyPTO."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import cann_mla
from cann_mla import ops
from cann_mla.ops.mla_prolog_quant_pypto import PyptoNotFoundError

NAMES = ("token_x", "wq_a", "wq_b", "wkv", "rope_cos", "rope_sin", "gamma_cq", "gamma_ckv", "wq_b_scale")


class FakeTensor:
    """A torch tensor on the NPU, as far as the dispatch looks at it."""


class FakeTorch(ModuleType):
    """Records what its operators are called with."""

    Tensor = FakeTensor

    def __init__(self) -> None:
        super().__init__("torch")
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.ops = SimpleNamespace(
            pypto=SimpleNamespace(
                mla_prolog_quant=lambda *given: self._record("mla_prolog_quant", given, 4),
                mla_prolog=lambda *given: self._record("mla_prolog", given, 3),
            )
        )

    def _record(self, name: str, given: tuple[Any, ...], count: int) -> tuple[str, ...]:
        self.calls.append((name, given))
        return ("q", "kv", "qr", "scale")[:count]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    for name in ("torch_npu", "pypto"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return fake


def test_the_same_tensors_go_to_the_operator_in_its_order(torch: FakeTorch) -> None:
    given: dict[str, Any] = {name: FakeTensor() for name in NAMES}
    result = ops.mla_prolog_quant(**dict(reversed(given.items())), via="pypto")
    ((name, passed),) = torch.calls
    assert name == "mla_prolog_quant"
    assert all(one is given[n] for one, n in zip(passed, NAMES, strict=True))
    assert (result.q_out, result.kv_out, result.qr_out, result.qr_scale_out) == ("q", "kv", "qr", "scale")
    result.close()  # nothing of it is ours


def test_the_plain_operator_has_no_scale(torch: FakeTorch) -> None:
    result = ops.mla_prolog(*(FakeTensor() for _ in NAMES[:-1]), via="pypto")  # type: ignore[arg-type]
    assert torch.calls[0][0] == "mla_prolog"
    assert len(torch.calls[0][1]) == 8
    assert (result.qr_out, result.qr_scale_out) == ("qr", None)


def test_other_tensors_are_refused(torch: FakeTorch) -> None:
    given: dict[str, Any] = {name: FakeTensor() for name in NAMES}
    with pytest.raises(TypeError, match=r"wkv is a float; via=\"pypto\" takes torch tensors"):
        ops.mla_prolog_quant(**{**given, "wkv": 1.0}, via="pypto")
    assert not torch.calls


def test_an_operator_that_nobody_registered(torch: FakeTorch) -> None:
    del torch.ops.pypto.mla_prolog_quant
    with pytest.raises(PyptoNotFoundError, match=r"torch\.ops\.pypto has no mla_prolog_quant"):
        ops.mla_prolog_quant(*(FakeTensor() for _ in NAMES), via="pypto")  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["torch", "torch_npu", "pypto"])
def test_what_is_missing_is_named(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # import raises
    with pytest.raises(PyptoNotFoundError, match=f"; {missing} cannot be imported"):
        ops.mla_prolog_quant(*(FakeTensor() for _ in NAMES), via="pypto")  # type: ignore[arg-type]


def test_nothing_is_imported_for_the_composition(tmp_path: Path) -> None:
    program = """
import sys
class Trap:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('torch', 'torch_npu', 'pypto'):
            raise SystemExit(f'{name} was imported')
sys.meta_path.insert(0, Trap())
import numpy as np, ml_dtypes, cann_mla
from cann_mla import ops
shapes = dict(token_x=(1, 8), wq_a=(8, 4), wq_b=(4, 8), wkv=(8, 4), rope_cos=(1, 2), rope_sin=(1, 2),
              gamma_cq=(4,), gamma_ckv=(4,))
given = {n: np.ones(s, ml_dtypes.bfloat16) for n, s in shapes.items()}
with cann_mla.Device(0), cann_mla.Stream() as stream:
    ops.mla_prolog(**given, stream=stream, any_sizes=True).close()
    stream.synchronize()
print('done')
"""
    command = [sys.executable, "-c", program]  # python -c looks into the current folder first: not the checkout's
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_cann_mla_tensors_stay_with_the_composition(torch: FakeTorch, stream: cann_mla.Stream) -> None:
    tensor = cann_mla.Tensor.zeros((1, 1), "BF16")
    with pytest.raises(TypeError, match="token_x is a Tensor"):
        ops.mla_prolog_quant(*(tensor for _ in NAMES), via="pypto")
