"""The steps that every C++ sample of CANN repeats, with the same C functions in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_mla import c
from cann_mla.dtypes import dtype, pack_4bit
from cann_mla.formats import nz_pack


def check(status: int, call: str) -> None:
    """Stop with the name of the call that failed, as the samples' CHECK_RET does."""
    if status != c.ACL_SUCCESS:
        raise SystemExit(f"{call} failed. ERROR: {status}\n{c.string(c.aclGetRecentErrMsg())}")


def init(device_id: int) -> Any:
    """Initialise ACL, choose a device, make a stream."""
    check(c.aclInit(c.NULL), "aclInit")
    check(c.aclrtSetDevice(device_id), "aclrtSetDevice")
    stream = c.new("aclrtStream *")
    check(c.aclrtCreateStream(stream), "aclrtCreateStream")
    return stream[0]


class Operands:
    """aclTensors on the device by name, made of arrays."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self._lists: dict[str, Any] = {}
        self._addresses: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._lists.get(name) or self.tensors[name]

    def create(self, name: str, host: np.ndarray, *, nz: bool = False, blocks: bool = False) -> None:
        """Allocate on the device, describe, copy.

        A matrix for FRACTAL_NZ (`nz`) is packed into its 4-D blocks first; `blocks` are in that format already.
        """
        if nz:
            host = nz_pack(host)
        kind = dtype(host.dtype)
        content = pack_4bit(host) if kind.is_4bit else np.ascontiguousarray(host)
        size = content.nbytes
        address = c.new("void **")
        check(c.aclrtMalloc(address, size, c.ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")
        shape = c.new("int64_t[]", list(host.shape))
        acl_format = c.ACL_FORMAT_FRACTAL_NZ if nz or blocks else c.ACL_FORMAT_ND
        self.tensors[name] = c.aclCreateTensor(
            shape, host.ndim, kind.code, c.NULL, 0, acl_format, shape, host.ndim, address[0]
        )
        self._addresses[name] = address[0]
        check(c.aclrtMemcpy(address[0], size, c.address(content), size, c.ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy")

    def create_list(self, name: str, host: np.ndarray) -> None:
        """Make an aclTensorList of one tensor, which then belongs to the list."""
        self.create(name, host)
        self._lists[name] = c.aclCreateTensorList(c.new("aclTensor *[]", [self.tensors.pop(name)]), 1)

    def fetch(self, name: str, result: np.ndarray) -> np.ndarray:
        """Copy an operand back into an array of the same size, and return it."""
        status = c.aclrtMemcpy(
            c.address(result), result.nbytes, self._addresses[name], result.nbytes, c.ACL_MEMCPY_DEVICE_TO_HOST
        )
        check(status, "aclrtMemcpy")
        return result

    def destroy(self) -> None:
        """Destroy the aclTensors and free their memory."""
        for tensor in self.tensors.values():
            c.aclDestroyTensor(tensor)
        for members in self._lists.values():
            c.aclDestroyTensorList(members)
        for address in self._addresses.values():
            c.aclrtFree(address)


def launch_and_wait(api: str, workspace_size: int, executor: Any, stream: Any) -> None:
    """Allocate the workspace, run phase two, wait for the stream, free the workspace."""
    workspace = c.new("void **")
    if workspace_size > 0:
        check(c.aclrtMalloc(workspace, workspace_size, c.ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")
    check(getattr(c, api)(workspace[0], workspace_size, executor, stream), api)
    check(c.aclrtSynchronizeStream(stream), "aclrtSynchronizeStream")
    if workspace_size > 0:
        c.aclrtFree(workspace[0])


def finish(stream: Any, device_id: int) -> None:
    """Give stream and device back."""
    c.aclrtDestroyStream(stream)
    c.aclrtResetDevice(device_id)
    c.aclFinalize()


def print_result(values: np.ndarray, count: int = 32) -> None:
    """Print the first elements as the samples do."""
    for i, value in enumerate(values.ravel()[:count]):
        print(f"result[{i}] is: {value}")
