"""CANN's own sample of aclnnMlaPrologV3WeightNz, in Python: first step by step, then in a few lines.

The first half is the C++ sample moved over call by call: the same functions under the same names, the same shapes,
the same steps and the same kind of lines printed. Only the data differ: the C++ sample fills its tensors with zeros,
this one with small random numbers, so that there is something to see. The second half does the same work with the
objects of ``cann_mla`` and compares the two results bit for bit.

    python samples/mla_prolog_v3.py
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import cann_mla
from cann_mla import c, ops
from cann_mla.formats import nz_pack

TOKENS, HE, HCQ, HEADS, D, HCKV, DR = 8, 7168, 1536, 128, 128, 512, 64
CACHE_BLOCKS, BLOCK_SIZE = 1, 16
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def make_inputs() -> dict[str, np.ndarray]:
    """Random operands under their C parameter names; weights as plain matrices, to be packed later."""
    rng = np.random.default_rng(7)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(BFLOAT16)

    angles = rng.uniform(0, 2 * np.pi, (TOKENS, 1, DR // 2))
    return {
        "tokenX": normal(TOKENS, 1, HE),
        "weightDq": normal(HE, HCQ, scale=HE**-0.5),
        "weightUqQr": normal(HCQ, HEADS * (D + DR), scale=HCQ**-0.5),
        "weightUk": normal(HEADS, D, HCKV, scale=D**-0.5),
        "weightDkvKr": normal(HE, HCKV + DR, scale=HE**-0.5),
        "rmsnormGammaCq": normal(HCQ),
        "rmsnormGammaCkv": normal(HCKV),
        "ropeSin": np.concatenate([np.sin(angles)] * 2, axis=-1).astype(BFLOAT16),
        "ropeCos": np.concatenate([np.cos(angles)] * 2, axis=-1).astype(BFLOAT16),
        "kvCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, HCKV), BFLOAT16),
        "krCacheRef": np.zeros((CACHE_BLOCKS, BLOCK_SIZE, 1, DR), BFLOAT16),
        "cacheIndexOptional": rng.permutation(BLOCK_SIZE)[:TOKENS].astype(np.int64).reshape(TOKENS, 1),
        "queryOut": np.zeros((TOKENS, 1, HEADS, HCKV), BFLOAT16),
        "queryRopeOut": np.zeros((TOKENS, 1, HEADS, DR), BFLOAT16),
    }


# Step by step, as in C++.


def check(status: int, call: str) -> None:
    """The C++ sample's CHECK_RET: say which call failed and stop."""
    if status != c.ACL_SUCCESS:
        raise SystemExit(f"{call} failed. ERROR: {status}")


def create_acl_tensor(host: np.ndarray, data_type: int, acl_format: int):
    """Allocate on the device, copy, describe: returns the device address and the aclTensor."""
    size = host.size * c.aclDataTypeSize(data_type)
    address = c.new("void **")
    check(c.aclrtMalloc(address, max(size, 1), c.ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")
    shape = c.new("int64_t[]", list(host.shape))
    tensor = c.aclCreateTensor(shape, host.ndim, data_type, c.NULL, 0, acl_format, shape, host.ndim, address[0])
    bits = np.ascontiguousarray(host).view(np.uint8)
    status = c.aclrtMemcpy(address[0], size, c.from_buffer(bits), size, c.ACL_MEMCPY_HOST_TO_DEVICE)
    check(status, "aclrtMemcpy")
    return address[0], tensor


def step_by_step(inputs: dict[str, np.ndarray], device_id: int = 0) -> np.ndarray:
    """The C++ sample. Returns queryOut's bit patterns."""
    # 1. Initialise, choose a device, make a stream.
    check(c.aclInit(c.NULL), "aclInit")
    check(c.aclrtSetDevice(device_id), "aclrtSetDevice")
    stream = c.new("aclrtStream *")
    check(c.aclrtCreateStream(stream), "aclrtCreateStream")

    # 2. Make the operands. Three weights are stored in FRACTAL_NZ and described by their 4-D block shape.
    addresses, tensors = {}, {}
    for name, host in inputs.items():
        packed = name in ("weightDq", "weightUqQr", "weightDkvKr")
        addresses[name], tensors[name] = create_acl_tensor(
            nz_pack(host) if packed else host,
            c.ACL_INT64 if host.dtype == np.int64 else c.ACL_BF16,
            c.ACL_FORMAT_FRACTAL_NZ if packed else c.ACL_FORMAT_ND,
        )

    # 3. Phase one: how much workspace, and an executor. Phase two: launch.
    workspace_size, executor = c.new("uint64_t *"), c.new("aclOpExecutor **")
    cache_mode = c.new("char[]", b"PA_BSND")
    t = tensors
    status = c.aclnnMlaPrologV3WeightNzGetWorkspaceSize(
        t["tokenX"], t["weightDq"], t["weightUqQr"], t["weightUk"], t["weightDkvKr"],
        t["rmsnormGammaCq"], t["rmsnormGammaCkv"], t["ropeSin"], t["ropeCos"],
        t["kvCacheRef"], t["krCacheRef"], t["cacheIndexOptional"],
        c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL, c.NULL,
        1e-5, 1e-5, cache_mode, 0, 0, 0, 0, 0, 128, 1.0, 1.0,
        t["queryOut"], t["queryRopeOut"], c.NULL, c.NULL, c.NULL,
        workspace_size, executor,
    )  # fmt: skip
    check(status, "aclnnMlaPrologV3WeightNzGetWorkspaceSize")
    workspace = c.new("void **")
    if workspace_size[0] > 0:
        check(c.aclrtMalloc(workspace, workspace_size[0], c.ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")
    status = c.aclnnMlaPrologV3WeightNz(workspace[0], workspace_size[0], executor[0], stream[0])
    check(status, "aclnnMlaPrologV3WeightNz")

    # 4. Wait.
    check(c.aclrtSynchronizeStream(stream[0]), "aclrtSynchronizeStream")

    # 5. Fetch the result.
    result = np.zeros(inputs["queryOut"].shape, np.uint16)
    status = c.aclrtMemcpy(
        c.from_buffer(result),
        result.nbytes,
        addresses["queryOut"],
        result.nbytes,
        c.ACL_MEMCPY_DEVICE_TO_HOST,
    )
    check(status, "aclrtMemcpy")
    for i, value in enumerate(result.ravel()[:32]):
        print(f"result[{i}] is: {value}")

    # 6. to 8. Give everything back.
    for tensor in tensors.values():
        c.aclDestroyTensor(tensor)
    for address in addresses.values():
        c.aclrtFree(address)
    if workspace_size[0] > 0:
        c.aclrtFree(workspace[0])
    c.aclrtDestroyStream(stream[0])
    c.aclrtResetDevice(device_id)
    c.aclFinalize()
    return result


# The same with objects.


def in_a_few_lines(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The same call through :func:`cann_mla.ops.mla_prolog_v3`. Returns queryOut's bit patterns."""
    operands = {ops.snake_case(name): array for name, array in inputs.items() if not name.endswith("Out")}
    with cann_mla.Device(0), cann_mla.Stream() as stream:
        result = ops.mla_prolog_v3(
            **operands, rmsnorm_epsilon_cq=1e-5, rmsnorm_epsilon_ckv=1e-5, cache_mode="PA_BSND", stream=stream
        )
        stream.synchronize()
        return result.query.to_numpy().view(np.uint16)


def main() -> None:
    """Run both halves and compare."""
    inputs = make_inputs()
    cann_mla.load()
    by_steps = step_by_step(inputs)
    by_objects = in_a_few_lines(inputs)
    if not np.array_equal(by_steps, by_objects):
        raise SystemExit("the two ways disagree")
    print(f"both ways agree in all {by_steps.size} elements of queryOut")


if __name__ == "__main__":
    main()
