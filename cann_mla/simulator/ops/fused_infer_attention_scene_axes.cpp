#include "ops/fused_infer_attention_scene_axes.hpp"

#include <map>

#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

size_t rankOf(Layout layout) {
    switch (layout) {
        case Layout::BSH:
        case Layout::TND:
        case Layout::NTD:
        case Layout::NSD:
        case Layout::BnBsH:
            return 3;
        case Layout::NZ:
            return 5;
        default:
            return 4;
    }
}

}  // namespace

std::optional<LayoutPair> parseLayout(const std::string &inputLayout) {
    static const std::map<std::string, LayoutPair> known = {
        {"BSH", {Layout::BSH, Layout::BSH}},         {"BSND", {Layout::BSND, Layout::BSND}},
        {"BNSD", {Layout::BNSD, Layout::BNSD}},      {"TND", {Layout::TND, Layout::TND}},
        {"NTD", {Layout::NTD, Layout::NTD}},         {"BSH_NBSD", {Layout::BSH, Layout::NBSD}},
        {"BSND_NBSD", {Layout::BSND, Layout::NBSD}}, {"BNSD_NBSD", {Layout::BNSD, Layout::NBSD}},
        {"TND_NTD", {Layout::TND, Layout::NTD}},     {"NTD_TND", {Layout::NTD, Layout::TND}},
        {"BNSD_BSND", {Layout::BNSD, Layout::BSND}}, {"BSND_BNSD", {Layout::BSND, Layout::BNSD}},
        {"BSH_BNSD", {Layout::BSH, Layout::BNSD}},
    };
    auto found = known.find(inputLayout);
    if (found == known.end()) return std::nullopt;
    return found->second;
}

int64_t axisS(const Shape &shape, Layout layout) {
    switch (layout) {
        case Layout::BSH:
        case Layout::BSND:
            return axis(shape, 1);
        case Layout::BNSD:
        case Layout::NBSD:
            return axis(shape, 2);
        default:
            return noAxis;
    }
}

int64_t axisT(const Shape &shape, Layout layout) {
    if (layout == Layout::TND) return axis(shape, 0);
    if (layout == Layout::NTD) return axis(shape, 1);
    return 0;
}

void requireRank(const char *name, const Shape &shape, Layout layout) {
    require(shape.size() == rankOf(layout), name, " has shape ", shape, "; its layout wants ", rankOf(layout), " axes");
}

int64_t headDim(const char *name, const Shape &shape, Layout layout, int64_t heads) {
    requireRank(name, shape, layout);
    switch (layout) {
        case Layout::BSH:
        case Layout::BnBsH:
            require(shape[2] % heads == 0, name, " has H ", shape[2], "; it must be a multiple of its ", heads,
                    " heads");
            return shape[2] / heads;
        case Layout::NZ:
            return times(shape[2], shape[4]);
        default:
            return shape.back();
    }
}

}  // namespace sim::fia
