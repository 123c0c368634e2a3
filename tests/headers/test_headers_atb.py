"""The C++ classes of ATB as headers/atb declares them: names and vtable slots are the ABI of libatb.so."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cann_mla.headers import shipped

PROGRAM = """
#include "atb/atb_acl.h"
#include "atb/atb_infer.h"
#include <cstdio>

namespace {
int called = 0;

struct Fake : atb::Context {
    void *stream = nullptr;
    atb::Status SetExecuteStream(aclrtStream s) override { stream = s; called = 2; return 0; }
    aclrtStream GetExecuteStream() const override { called = 3; return stream; }
    atb::Status SetAsyncTilingCopyStatus(bool) override { called = 4; return 0; }
    bool GetAsyncTilingCopyStatus() const override { called = 5; return true; }
    atb::Status SetExecuteStreams(const std::vector<aclrtStream> &) override { return 0; }
    std::vector<aclrtStream> GetExecuteStreams() override { return {}; }
    atb::Status SetExecuteType(atb::ExecuteType) override { called = 8; return 0; }
    atb::ExecuteType GetExecuteType() override { called = 9; return atb::EXECUTE_NORMAL; }
    atb::Status SetLaunchMode(atb::LaunchMode) override { called = 10; return 0; }
    atb::LaunchMode GetLaunchMode() override { called = 11; return atb::KERNEL_LAUNCH_MODE; }
};

struct FakeOperation : atb::Operation {
    std::string GetName() const override { return "fake"; }
    atb::Status InferShape(const atb::SVector<atb::TensorDesc> &, atb::SVector<atb::TensorDesc> &) const override {
        return 0;
    }
    uint32_t GetInputNum() const override { return 104; }
    uint32_t GetOutputNum() const override { return 105; }
    atb::Status Setup(const atb::VariantPack &, uint64_t &, atb::Context *) override { return 106; }
    atb::Status Execute(const atb::VariantPack &, uint8_t *, uint64_t, atb::Context *) override { return 107; }
};
}  // namespace

namespace atb {
Status CreateContext(Context **context) { *context = new Fake; return 0; }
Status CreateContext(Context **context, uint32_t, uint32_t) { *context = new Fake; return 0; }
Status CreateContext(Context **, const std::function<void *(size_t)> &, const std::function<void(void *)> &) {
    return 1;
}
Status DestroyContext(Context *context) { delete context; return 0; }
Status DestroyOperation(Operation *operation) { delete operation; return 0; }
Status SetExecuteStreamId(Operation *, uint32_t) { return 0; }
uint32_t GetExecuteStreamId(Operation *) { return 0; }
}  // namespace atb

int main() {
    atb::Context *context = nullptr;
    atb::CreateContext(&context);
    void **table = *reinterpret_cast<void ***>(context);
    int32_t there = 0;
    reinterpret_cast<int32_t (*)(void *, void *)>(table[2])(context, &there);
    bool same = reinterpret_cast<void *(*)(const void *)>(table[3])(context) == &there;
    std::printf("%d", same);
    reinterpret_cast<bool (*)(const void *)>(table[5])(context);
    std::printf(" %d", called);
    reinterpret_cast<int (*)(void *)>(table[11])(context);
    std::printf(" %d", called);
    atb::DestroyContext(context);
    atb::Operation *operation = new FakeOperation;
    table = *reinterpret_cast<void ***>(operation);
    std::printf(" %u", reinterpret_cast<uint32_t (*)(const void *)>(table[4])(operation));
    std::printf(" %d\\n", reinterpret_cast<int32_t (*)(void *, void *, void *, void *)>(table[6])(operation, 0, 0, 0));
    atb::DestroyOperation(operation);
    std::printf("%zu %zu %zu\\n", sizeof(atb::Dims), sizeof(atb::TensorDesc), sizeof(atb::Tensor));
    using namespace atb::infer;
    std::printf("%zu %zu %zu %zu\\n", sizeof(atb::VariantPack), sizeof(RingMLAParam), sizeof(ElewiseParam),
                sizeof(TransdataParam));
    atb::SVector<int64_t> few = {7, 9}, many(64, 5);
    many.push_back(6);
    const auto *words = reinterpret_cast<const int64_t *>(&few);
    std::printf("%ld %ld %ld", long(words[1]), long(words[2]), long(words[3]));
    std::printf(" %zu %ld %ld\\n", many.size(), long(many.at(63)), long(many.at(64)));
    std::printf("%d\\n", many.data() == *reinterpret_cast<int64_t *const *>(&reinterpret_cast<int64_t *>(&many)[67]));
}
"""
SYMBOLS = {
    "_ZN3atb13CreateContextEPPNS_7ContextE",
    "_ZN3atb13CreateContextEPPNS_7ContextEjj",
    "_ZN3atb13CreateContextEPPNS_7ContextERKSt8functionIFPvmEERKS3_IFvS4_EE",
    "_ZN3atb14DestroyContextEPNS_7ContextE",
    "_ZN3atb16DestroyOperationEPNS_9OperationE",
    "_ZN3atb18SetExecuteStreamIdEPNS_9OperationEj",
    "_ZN3atb18GetExecuteStreamIdEPNS_9OperationE",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None or shutil.which("nm") is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("atb")
    source = folder / "atb.cpp"
    source.write_text(PROGRAM)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{shipped.root()}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(folder / "atb")], check=True, timeout=120)
    return folder / "atb"


def test_symbols_are_those_of_libatb(program: Path) -> None:
    out = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in out.splitlines()} >= SYMBOLS


def test_slots_and_sizes(program: Path) -> None:
    out = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=30).stdout
    # A pack is two vectors of 8 + 8 + 65 * 104 + 8 bytes; a RingMLAParam is 7 * 4 and 64 reserved bytes.
    # A vector begins with its capacity and its size, then come the elements, last the heap's address.
    sizes = f"{2 * 6784} {7 * 4 + 64} 64 {8 + 8 + 8 + 65 * 8 + 8 + 8}"
    assert out.splitlines() == ["1 5 11 104 106", "72 80 104", sizes, "2 7 9 65 5 6", "1"]
