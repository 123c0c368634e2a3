#include "core/objects.hpp"

namespace sim {
namespace {

std::string dimsText(const std::vector<int64_t> &dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
    return text + "]";
}

std::string countText(size_t count, const char *of) {
    return "of " + std::to_string(count) + " " + of + (count == 1 ? "" : "s");
}

}  // namespace

std::string TensorObject::text() const {
    std::string text = dimsText(desc.shape) + " " + dtypeName(desc.dtype) + " " + formatName(desc.format);
    if (!isPrivateFormat(desc.format) && !desc.isDense()) text += ", strides " + dimsText(desc.strides);
    if (desc.offset != 0) text += ", offset " + std::to_string(desc.offset);
    return text;
}

std::string TensorListObject::text() const { return countText(members.size(), "tensor"); }

std::string ScalarObject::text() const { return dtypeName(dtype); }

std::string ScalarListObject::text() const { return countText(members.size(), "scalar"); }

std::string arrayText(size_t count) { return countText(count, "value"); }

}  // namespace sim
