"""The simulator's ATB library has every function of the headers, C and C++, under CANN's name too."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from cann_mla import simulator
from cann_mla.headers import shipped

CPP = [
    "_ZN3atb13CreateContextEPPNS_7ContextE",
    "_ZN3atb13CreateContextEPPNS_7ContextEjj",
    "_ZN3atb13CreateContextEPPNS_7ContextERKSt8functionIFPvmEERKS3_IFvS4_EE",
    "_ZN3atb14DestroyContextEPNS_7ContextE",
    "_ZN3atb16DestroyOperationEPNS_9OperationE",
    "_ZN3atb18SetExecuteStreamIdEPNS_9OperationEj",
    "_ZN3atb18GetExecuteStreamIdEPNS_9OperationE",
    "_ZN3atb15CreateOperationINS_5infer12RingMLAParamEEEiRKT_PPNS_9OperationE",
    "_ZN3atb15CreateOperationINS_5infer12ElewiseParamEEEiRKT_PPNS_9OperationE",
    "_ZN3atb15CreateOperationINS_5infer14TransdataParamEEEiRKT_PPNS_9OperationE",
    "_ZN3atb19CloneOperationParamINS_5infer12RingMLAParamEEEiPKNS_9OperationERT_",
    "_ZN3atb20UpdateOperationParamINS_5infer12RingMLAParamEEEiPNS_9OperationERKT_",
    "_ZN3atb5Utils13GetTensorSizeERKNS_6TensorE",
    "_ZN3atb5Utils13GetTensorSizeERKNS_10TensorDescE",
    "_ZN3atb5Utils14GetTensorNumelERKNS_6TensorE",
    "_ZN3atb5Utils14GetTensorNumelERKNS_10TensorDescE",
]


@pytest.mark.parametrize("name", ["libcann_mla_sim_atb.so", "libatb.so"])
def test_every_function_is_there(name: str) -> None:
    library = ctypes.CDLL(str(simulator.library_dir() / name))
    functions = shipped.load().functions.values()
    declared = {function.name for function in functions if Path(function.header).parent.name == "atb"}
    assert len(declared) == 14
    assert {symbol for symbol in [*declared, *CPP] if not hasattr(library, symbol)} == set()
