"""The C names: a C sample moved over line by line."""

from __future__ import annotations

import numpy as np
import pytest

import cann_mla
from cann_mla import c


def test_a_c_program_line_by_line(device: cann_mla.Device) -> None:
    stream = c.new("aclrtStream *")
    assert c.aclrtCreateStream(stream) == c.ACL_SUCCESS
    shape = c.new("int64_t[]", [2, 3])
    host = np.arange(6, dtype=np.float32)
    memory = c.new("void **")
    assert c.aclrtMalloc(memory, host.nbytes, c.ACL_MEM_MALLOC_HUGE_FIRST) == c.ACL_SUCCESS
    status = c.aclrtMemcpy(memory[0], host.nbytes, c.address(host), host.nbytes, c.ACL_MEMCPY_HOST_TO_DEVICE)
    assert status == c.ACL_SUCCESS
    tensor = c.aclCreateTensor(shape, 2, c.ACL_FLOAT, c.NULL, 0, c.ACL_FORMAT_ND, shape, 2, memory[0])
    assert tensor != c.NULL
    element = c.new("aclDataType *")
    assert c.aclGetDataType(tensor, element) == c.ACL_SUCCESS
    assert element[0] == c.ACL_FLOAT == 0
    back = np.zeros_like(host)
    status = c.aclrtMemcpy(c.address(back), back.nbytes, memory[0], back.nbytes, c.ACL_MEMCPY_DEVICE_TO_HOST)
    assert status == c.ACL_SUCCESS
    assert back.tolist() == host.tolist()
    assert c.aclDestroyTensor(tensor) == c.ACL_SUCCESS
    assert c.aclrtFree(memory[0]) == c.ACL_SUCCESS
    assert c.aclrtDestroyStream(stream[0]) == c.ACL_SUCCESS


def test_status_is_returned_and_the_text_can_be_asked_for(device: cann_mla.Device) -> None:
    assert c.aclrtMalloc(c.NULL, 16, c.ACL_MEM_MALLOC_HUGE_FIRST) != c.ACL_SUCCESS
    assert "aclrtMalloc" in c.string(c.aclGetRecentErrMsg())
    assert c.aclGetRecentErrMsg() == c.NULL


def test_constants_have_their_c_values(device: cann_mla.Device) -> None:
    assert c.ACL_FORMAT_FRACTAL_NZ == 29
    assert c.ACL_BF16 == 27
    assert c.ACLNN_ERR_PARAM_INVALID == 161002
    assert c.ACL_ERROR_RT_CONTEXT_NULL == 107002


def test_wrong_c_arguments_are_refused_before_the_call(device: cann_mla.Device) -> None:
    with pytest.raises(TypeError):
        c.aclrtMalloc(c.new("void **"))
    with pytest.raises(TypeError):
        c.aclDestroyTensor(c.new("aclrtStream *"))
    with pytest.raises(OverflowError):
        c.aclrtSetDevice(2**31)


def test_unknown_name_is_an_attribute_error(device: cann_mla.Device) -> None:
    with pytest.raises(AttributeError, match="aclrtNope is neither a function nor a constant"):
        c.aclrtNope  # noqa: B018
    with pytest.raises(AttributeError):
        c.dlopen  # noqa: B018


def test_every_function_of_the_headers_can_be_named(device: cann_mla.Device) -> None:
    from cann_mla.prototypes import shipped_symbols

    assert len(shipped_symbols()) > 350
    assert set(shipped_symbols()) <= set(dir(c))
    for symbol in shipped_symbols():
        assert callable(getattr(c, symbol))


def test_function_that_the_library_lacks_raises_when_it_is_called(device: cann_mla.Device) -> None:
    from cann_mla.prototypes import shipped_symbols

    missing = [symbol for symbol in shipped_symbols() if not cann_mla.load().has(symbol)]
    assert missing
    for symbol in missing:
        function = getattr(c, symbol)
        with pytest.raises(cann_mla.SymbolNotFoundError, match=f"{symbol} is in none of the loaded libraries"):
            function()


def test_memory_helpers() -> None:
    numbers = c.new("int32_t[]", [1, 2, 3])
    assert c.sizeof(numbers) == 12
    assert bytes(c.buffer(numbers))[:4] == b"\x01\0\0\0"
    assert int(c.cast("uint8_t", 300)) == 44
    with pytest.raises(ValueError, match="not contiguous"):
        c.address(np.zeros((2, 2))[:, 0])


def test_prototype_names_the_parameters() -> None:
    text = c.prototype("aclrtMemcpy")
    assert text.startswith("aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,")
    with pytest.raises(LookupError, match=r"aclrtMemcopy; near are aclrtMemcpy"):
        c.prototype("aclrtMemcopy")


def test_an_unknown_type_is_refused_with_its_near_name() -> None:
    with pytest.raises(
        ValueError, match=r"'aclRtStream \*' is no C type of the headers \(did you mean aclrtStream\?\)"
    ):
        c.new("aclRtStream *")


def test_only_c_names_and_helpers_are_listed() -> None:
    lower = {
        name
        for name in dir(c)
        if not name.startswith(("acl", "ACL", "Hccl", "HCCL", "Atb", "ATB", "atb", "cann", "CANN"))
    }
    assert {"NULL", "address", "buffer", "cast", "new", "prototype", "sizeof", "string"} <= lower
    assert not {"Any", "abi", "npt", "annotations"} & lower
