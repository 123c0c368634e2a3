#include "ops/quant_matmul.hpp"

namespace sim::quant_matmul {

using namespace primitive;

namespace {

constexpr int64_t longestLastAxis = 65535;
constexpr int64_t blockRows = 16, blockWidth = 32, blockWidthInt4 = 64;

int64_t blocks(int64_t size, int64_t unit) { return (size + unit - 1) / unit; }

void checkInt4(const Params &p, const Product &product) {
    if (product.x1.dtype != ACL_INT4) return;
    bool even =
        product.k() > 0 && product.k() % 2 == 0 && (product.x2.transposed || (product.n() > 0 && product.n() % 2 == 0));
    if (!even || product.x1.transposed || p.x2->rank() != 2 || (p.bias && p.bias->rank() != 1)) {
        refuse(paramInvalid, "x1 has shape " + print(p.x1->shape) + " and x2 " + print(p.x2->shape) +
                                 "; INT4 wants even axes, x1 not transposed, x2 of two dimensions and bias of one");
    }
}

void checkInnerAxis(const Params &p, const Product &product) {
    if (product.k() == product.x2K()) return;
    refuse(paramInvalid, "x1 has shape " + print(p.x1->shape) + " and x2 " + print(p.x2->shape) + "; k is " +
                             std::to_string(product.k()) + " in x1 and " + std::to_string(product.x2K()) + " in x2");
}

// V3, V4 and WeightNz on A2 and A3.
void checkLastAxes(const Params &p, const Product &product) {
    if (isA950() || p.interface == Interface::V5) return;
    bool free = product.x1.dtype == ACL_INT8 && isOneOf(p.x2Scale->dtype, {ACL_FLOAT, ACL_BF16}) && p.x1Scale &&
                p.x1Scale->rank() == 1 && p.x2Scale->rank() == 1;
    if (free || (product.x1.inner() <= longestLastAxis && product.x2.inner() <= longestLastAxis)) return;
    refuse(paramInvalid, "the last axes of x1 and x2 are " + std::to_string(product.x1.inner()) + " and " +
                             std::to_string(product.x2.inner()) + "; without per-token scales at most 65535");
}

void checkNz(const Params &p, const Product &product) {
    if (!product.x2.nz) return;
    if (p.interface != Interface::WeightNz) {
        const std::vector<int64_t> &stored = product.x2.storageShape;
        int64_t width = product.x2.dtype == ACL_INT4 ? blockWidthInt4 : blockWidth;
        int64_t unit = product.x2.transposed ? width : blockRows;
        int64_t found = stored[stored.size() - (product.x2.transposed ? 4 : 3)];
        if (found != blocks(product.k(), unit)) {
            refuse(paramInvalid, "x2 has storage shape " + print(stored) + "; for k of " + std::to_string(product.k()) +
                                     " it must hold " + std::to_string(blocks(product.k(), unit)) + " blocks");
        }
    }
    bool checkedHere = isA950() || p.interface == Interface::V5;
    if (checkedHere && (product.k() == 1 || product.n() == 1)) {
        refuse(paramInvalid, "x2 has shape " + print(p.x2->shape) + "; neither axis may be 1 in FRACTAL_NZ");
    }
}

void requireOneOrAll(const Named &operand, int64_t n) {
    int64_t size = operand.desc->shape[0];
    if (size == n || size == 1) return;
    refuse(paramInvalid, std::string(operand.name) + " has shape " + print(operand.desc->shape) +
                             "; it must be [1] or [" + std::to_string(n) + "]");
}

void checkScales(const Params &p, const Product &product) {
    requireOneOrAll({p.names.x2Scale, p.x2Scale}, product.n());
    if (p.x2Offset) {
        requireRank(paramInvalid, {p.names.x2Offset, p.x2Offset}, 1, 1);
        requireOneOrAll({p.names.x2Offset, p.x2Offset}, product.n());
    }
    if (!p.x1Scale) return;
    requireRank(paramInvalid, {p.names.x1Scale, p.x1Scale}, 1, 1);
    bool oneForAll = isA950() && product.x1.dtype != ACL_INT8 && p.x1Scale->shape[0] == 1;
    if (!oneForAll) {
        requireShape(paramInvalid, {p.names.x1Scale, p.x1Scale}, {product.m()}, "one scale for each row of x1");
    }
}

void checkBias(const Params &p, const Product &product, const std::vector<int64_t> &batch) {
    if (!p.bias) return;
    if (p.bias->rank() == 3 && batch.size() == 1) {
        return requireShape(paramInvalid, {"bias", p.bias}, {batch[0], 1, product.n()}, "batch and columns of out");
    }
    requireShape(paramInvalid, {"bias", p.bias}, {product.n()}, "the columns of out");
}

void checkOut(const Params &p, const Product &product, std::vector<int64_t> wanted) {
    bool rowsAsBatch =
        wanted.empty() && p.x1->rank() == 2 && p.x2->rank() == 2 && p.out->rank() == 3 && p.out->shape[1] == 1;
    wanted.push_back(product.m());
    if (rowsAsBatch) wanted.push_back(1);
    wanted.push_back(product.n());
    requireShape(paramInvalid, {"out", p.out}, wanted, "batch, rows of x1 and columns of x2");
}

}  // namespace

void checkShapes(const Params &p, const Product &product) {
    if (isA950() && p.groupSize != 0) {
        refuse(paramInvalid,
               "groupSize is " + std::to_string(p.groupSize) + "; with scales per row or column it must be 0");
    }
    checkInt4(p, product);
    checkInnerAxis(p, product);
    checkLastAxes(p, product);
    checkNz(p, product);
    checkScales(p, product);
    std::optional<std::vector<int64_t>> batch = product.batch();
    if (!batch) {
        refuse(paramInvalid, "x1 has shape " + print(p.x1->shape) + " and x2 " + print(p.x2->shape) +
                                 "; leading axes must be equal or 1");
    }
    checkBias(p, product, *batch);
    checkOut(p, product, *batch);
}

}  // namespace sim::quant_matmul
