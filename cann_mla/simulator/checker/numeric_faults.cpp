#include "checker/numeric_faults.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "ops/weight_layout.hpp"

namespace sim {
namespace {

constexpr int64_t kCores = 24;

// Prototypes append "Optional" to names that operators use without.
bool isNamed(const Operand &operand, const std::string &name) {
    return name == operand.name || name == std::string(operand.name) + "Optional";
}

// One, `count` times; empty for types that no scale has.
std::vector<uint8_t> ones(aclDataType dtype, int64_t count) {
    auto fill = [count](auto one) {
        std::vector<uint8_t> bytes(static_cast<size_t>(count) * sizeof one);
        for (size_t at = 0; at < bytes.size(); at += sizeof one) std::memcpy(bytes.data() + at, &one, sizeof one);
        return bytes;
    };
    switch (dtype) {
        case ACL_FLOAT: return fill(1.0F);
        case ACL_BF16: return fill(uint16_t{0x3F80});
        case ACL_FLOAT16: return fill(uint16_t{0x3C00});
        case ACL_FLOAT8_E8M0: return fill(uint8_t{127});
        case ACL_INT64:
        case ACL_UINT64: return fill(uint64_t{0x3F800000});  // a float in the lower half
        default: return {};
    }
}

// Blocks whose unpacking gives what stands at `address`, taken as rows: the reading of a kernel that knows no blocks.
std::optional<std::vector<uint8_t>> rowsAsBlocks(const TensorDesc &desc, const void *address) {
    std::vector<int64_t> shape = desc.shape;
    int64_t width = weight_layout::blockWidth(desc.dtype);
    size_t rank = shape.size();
    if (rank >= 4 && shape[rank - 1] == width && shape[rank - 2] == weight_layout::blockRows) {
        int64_t rows = shape[rank - 3] * weight_layout::blockRows, columns = shape[rank - 4] * width;
        shape.resize(rank - 4);
        shape.insert(shape.end(), {rows, columns});
    }
    if (shape.size() < 2 || width == 0) return std::nullopt;
    weight_layout::Blocks blocks(shape, width, desc.dtype);
    if (blocks.rowMajorBytes() != blocks.blockBytes()) return std::nullopt;  // padded: rows are no such reading
    std::vector<uint8_t> result(static_cast<size_t>(blocks.blockBytes()));
    blocks.pack(address, result.data());
    return result;
}

}  // namespace

bool NumericFaults::has(NumericFault fault) const {
    return std::any_of(choices_.begin(), choices_.end(), [&](const NumericChoice &c) { return c.fault == fault; });
}

bool NumericFaults::strikes(NumericFault fault, const Operand &operand) const {
    return std::any_of(choices_.begin(), choices_.end(), [&](const NumericChoice &choice) {
        bool anywhere = choice.where.empty() || choice.whereIsOperator();
        return choice.fault == fault && (anywhere || isNamed(operand, choice.where));
    });
}

std::optional<std::vector<uint8_t>> NumericFaults::misread(const Operand &operand, const void *address) {
    if (operand.role != Role::Input || operand.view == View::Host) return std::nullopt;
    const TensorDesc &desc = operand.tensor->desc;
    if (desc.format == ACL_FORMAT_FRACTAL_NZ && strikes(NumericFault::NzAsNd, operand)) {
        return rowsAsBlocks(desc, address);
    }
    std::string name = operand.name;
    bool isScale = name.find("cale") != std::string::npos;
    if (isScale && !scaleDropped_ && strikes(NumericFault::ScaleDropped, operand)) {
        std::vector<uint8_t> result = ones(desc.dtype, desc.numel());
        scaleDropped_ = !result.empty();
        if (scaleDropped_) return result;
    }
    return std::nullopt;
}

void NumericFaults::keepTail(const Operand &operand, void *address) {
    bool isCache = std::string(operand.name).find("ache") != std::string::npos;  // written row by row
    if (operand.role == Role::Input || isCache || !strikes(NumericFault::LastBlockUnwritten, operand)) return;
    const TensorDesc &desc = operand.tensor->desc;
    int64_t rowElements = desc.rank() > 1 ? desc.shape.back() : 1, rows = desc.numel() / rowElements;
    int64_t kept = (rows + kCores - 1) / kCores;
    auto start = static_cast<size_t>(packedBytes((rows - kept) * rowElements, desc.dtype));
    auto end = static_cast<size_t>(packedBytes(desc.numel(), desc.dtype));
    auto *bytes = static_cast<uint8_t *>(address);
    tails_.push_back({bytes + start, {bytes + start, bytes + end}});
}

void NumericFaults::restoreTails() {
    for (const Tail &tail : tails_) std::copy(tail.before.begin(), tail.before.end(), tail.address);
    tails_.clear();
}

}  // namespace sim
