#include "ops/mla_prolog_operands.hpp"

namespace sim::mla_prolog {
namespace {

constexpr int64_t kMxBlock = 32;

// One table of the operator, filled in the order of the C parameters.
class Table {
   public:
    Table(const Params &params, const Scenario &scenario, const Sizes &sizes)
        : params_(params), scenario_(scenario), sizes_(sizes) {}

    std::vector<Expected> rows() {
        addWeights();
        addCaches();
        addDequantScales();
        addQuantScales();
        addOutputs();
        return std::move(rows_);
    }

   private:
    void add(const char *name, const TensorDesc *found, aclDataType dtype, const Shape &shape) {
        rows_.push_back({name, found, Presence::Required, dtype, shape});
    }

    void addIf(bool wanted, const char *name, const TensorDesc *found, aclDataType dtype, const Shape &shape) {
        rows_.push_back({name, found, wanted ? Presence::Required : Presence::Forbidden, dtype, shape});
    }

    // (T, ...) or (B, S, ...), as tokenX is.
    Shape perToken(std::initializer_list<int64_t> tail) const {
        Shape shape = sizes_.fused ? Shape{sizes_.t} : Shape{sizes_.b, sizes_.s};
        shape.insert(shape.end(), tail);
        return shape;
    }

    void addWeight(const char *name, const TensorDesc *found, aclDataType dtype, int64_t rows, int64_t columns) {
        Shape shape{rows, columns};
        if (found->rank() == 4) {
            const int64_t c0 = 32 / packedBytes(1, found->dtype);
            shape = {columns / c0, rows / 16, 16, c0};
        }
        rows_.push_back({name, found, Presence::Required, dtype, shape, true});
    }

    void addWeights() {
        const aclDataType token = scenario_.tokenDtype();
        add("tokenX", params_.tokenX, token, perToken({sizes_.he}));
        addWeight("weightDq", params_.weightDq, token, sizes_.he, sizes_.hcq);
        addWeight("weightUqQr", params_.weightUqQr, scenario_.weightUqQrDtype(), sizes_.hcq, sizes_.headsUqQr());
        add("weightUk", params_.weightUk, ACL_BF16, {sizes_.n, sizes_.d, sizes_.hckv});
        addWeight("weightDkvKr", params_.weightDkvKr, token, sizes_.he, sizes_.hckv + sizes_.dr);
        add("rmsnormGammaCq", params_.rmsnormGammaCq, ACL_BF16, {sizes_.hcq});
        add("rmsnormGammaCkv", params_.rmsnormGammaCkv, ACL_BF16, {sizes_.hckv});
        add("ropeSin", params_.ropeSin, ACL_BF16, perToken({sizes_.dr}));
        add("ropeCos", params_.ropeCos, ACL_BF16, perToken({sizes_.dr}));
    }

    Shape cacheShape(int64_t width) const {
        if (params_.cacheMode == "TND") return {sizes_.t, sizes_.nkv, width};
        if (params_.cacheMode == "BSND") return {sizes_.b, sizes_.s, sizes_.nkv, width};
        return {sizes_.blockNum, sizes_.blockSize, sizes_.nkv, width};
    }

    Shape cacheIndexShape() const {
        if (!isBlockIndexed(params_.cacheMode)) return perToken({});
        if (sizes_.fused) return params_.cacheIndex->shape;  // CANN does not look at its length
        // 32-bit, as tiling divides.
        return {sizes_.b, (sizes_.s + sizes_.blockSize - 1) / sizes_.blockSize};
    }

    void addCaches() {
        add("kvCacheRef", params_.kvCache, scenario_.kvCacheDtype(), cacheShape(sizes_.dtile));
        if (scenario_.kv != KvQuant::PerTile) {
            add("krCacheRef", params_.krCache, scenario_.krCacheDtype(), cacheShape(sizes_.dr));
        }
        const bool paged = isPaged(params_.cacheMode);
        const char *name = params_.isV3() ? "cacheIndexOptional" : "cacheIndex";
        addIf(paged, name, params_.cacheIndex, ACL_INT64, paged ? cacheIndexShape() : Shape{});
    }

    void addDequantScales() {
        const bool full = scenario_.isFullQuant();
        const bool mx = scenario_.weight == WeightQuant::Mxfp8;
        const aclDataType dtype = mx ? ACL_FLOAT8_E8M0 : ACL_FLOAT;
        const int64_t blocksOfX = sizes_.he / kMxBlock;
        // MX scales are (columns of the weight, K/32); channel scales (1, columns of the weight).
        const auto ofWeight = [&](int64_t columns, int64_t k) {
            return mx ? Shape{columns, k / kMxBlock} : Shape{1, columns};
        };
        addIf(full, "dequantScaleXOptional", params_.dequantScaleX, dtype, {sizes_.t, mx ? blocksOfX : 1});
        addIf(full, "dequantScaleWDqOptional", params_.dequantScaleWDq, dtype, ofWeight(sizes_.hcq, sizes_.he));
        addIf(scenario_.weight != WeightQuant::None, "dequantScaleWUqQrOptional", params_.dequantScaleWUqQr, dtype,
              ofWeight(sizes_.headsUqQr(), sizes_.hcq));
        addIf(full, "dequantScaleWDkvKrOptional", params_.dequantScaleWDkvKr, dtype,
              ofWeight(sizes_.hckv + sizes_.dr, sizes_.he));
    }

    void addQuantScales() {
        const bool perTensor = scenario_.kv == KvQuant::PerTensor, perChannel = scenario_.kv == KvQuant::PerChannel;
        // V2 wants a row of equal values where V3 wants the value.
        const Shape ckv = perTensor && params_.isV3() ? Shape{1} : Shape{1, sizes_.hckv};
        addIf(perTensor || perChannel, "quantScaleCkvOptional", params_.quantScaleCkv, ACL_FLOAT, ckv);
        addIf(perChannel, "quantScaleCkrOptional", params_.quantScaleCkr, ACL_FLOAT, {1, sizes_.dr});
        const bool smooth = scenario_.weight != WeightQuant::None && scenario_.weight != WeightQuant::Mxfp8;
        rows_.push_back({"smoothScalesCqOptional", params_.smoothScalesCq,
                         smooth ? Presence::Optional : Presence::Forbidden, ACL_FLOAT, {1, sizes_.hcq}});
        addIf(sizes_.fused && isBlockIndexed(params_.cacheMode), "actualSeqLenOptional", params_.actualSeqLen,
              ACL_INT32, {sizes_.b});
        addIf(scenario_.needsClipAlpha(), "kNopeClipAlphaOptional", params_.kNopeClipAlpha, ACL_FLOAT, {1});
    }

    void addOutputs() {
        add("queryOut", params_.query, scenario_.queryDtype(), perToken({sizes_.n, sizes_.hckv}));
        add("queryRopeOut", params_.queryRope, ACL_BF16, perToken({sizes_.n, sizes_.dr}));
        // V2 looks at the shape of an unused scale output as little as V3 lets one pass.
        if (params_.version != Version::V1 && scenario_.kv == KvQuant::PerTensor) {
            add("dequantScaleQNopeOutOptional", params_.dequantScaleQNope, ACL_FLOAT, {sizes_.t, sizes_.n, 1});
        }
        if (params_.queryNorm != nullptr) {
            add("queryNormOutOptional", params_.queryNorm, scenario_.queryNormDtype(), perToken({sizes_.hcq}));
        }
        if (params_.dequantScaleQNorm != nullptr) {
            const int64_t width = scenario_.weight == WeightQuant::Mxfp8 ? sizes_.hcq / kMxBlock : 1;
            add("dequantScaleQNormOutOptional", params_.dequantScaleQNorm, scenario_.normScaleDtype(),
                {sizes_.t, width});
        }
    }

    const Params &params_;
    const Scenario &scenario_;
    const Sizes &sizes_;
    std::vector<Expected> rows_;
};

}  // namespace

std::vector<Expected> expectedOperands(const Params &params, const Scenario &scenario, const Sizes &sizes) {
    return Table(params, scenario, sizes).rows();
}

std::string faultOf(const Expected &operand) {
    const std::string name = operand.name;
    if (operand.found == nullptr) {
        return operand.presence == Presence::Required ? name + " is null, must be given" : "";
    }
    if (operand.presence == Presence::Forbidden) return name + " is given, must be null";
    if (operand.found->dtype != operand.dtype) {
        return mustBe("the dtype of " + name, dtypeName(operand.found->dtype), dtypeName(operand.dtype));
    }
    const aclFormat format = operand.found->format;
    if (operand.fractalNz ? format != ACL_FORMAT_FRACTAL_NZ : !countsAsNd(format)) {
        return mustBe("the format of " + name, formatName(format), operand.fractalNz ? "FRACTAL_NZ" : "ND");
    }
    if (operand.found->shape != operand.shape) {
        return mustBe("the shape of " + name, text(operand.found->shape), text(operand.shape));
    }
    return "";
}

}  // namespace sim::mla_prolog
