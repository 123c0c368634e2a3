#include "checker/words.hpp"

namespace sim::checker {

std::string nameOf(const Actor &actor) {
    std::string name = actor.origin.isKnown() ? actor.origin.api : "a call";
    return actor.onHost || actor.origin.stream < 0 ? name : name + " on stream " + std::to_string(actor.origin.stream);
}

std::string placeOf(const Actor &actor) {
    std::vector<std::string> lines = textOf(actor.origin.place);
    return lines.empty() ? "" : " (" + lines.front() + ")";
}

std::string roleOf(const Access &access) {
    if (access.workspace) return " in its workspace";
    return *access.operand == '\0' ? "" : std::string(" as ") + access.operand;
}

std::string textOf(const TensorDesc &desc) {
    std::string text = "[";
    for (size_t i = 0; i < desc.shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(desc.shape[i]);
    return text + "] " + dtypeName(desc.dtype);
}

ObjectText textOf(const Memory &memory, const char *operand, const TensorObject *tensor) {
    bool onHost = memory.device == kHostMemory;
    std::string text = std::to_string(memory.size) + " bytes";
    if (!onHost) text += " on device " + std::to_string(memory.device);
    if (tensor != nullptr) text += ", there " + std::string(operand) + " " + textOf(tensor->desc);
    return {onHost ? "pinned host memory" : "device memory", reinterpret_cast<const void *>(memory.begin), text};
}

}  // namespace sim::checker
