#include "core/product.hpp"

#include <atomic>
#include <cstdio>
#include <optional>

#include "core/settings.hpp"

namespace sim {
namespace {

// A product name, or the name of a chip of that product as aclrtGetSocName reports it.
std::optional<Product> parseProduct(const std::string &name) {
    auto startsWith = [&](const char *prefix) { return name.rfind(prefix, 0) == 0; };
    if (startsWith("Ascend910B")) return Product::A2;
    if (startsWith("Ascend910_93")) return Product::A3;
    if (startsWith("Ascend950")) return Product::A950;
    return std::nullopt;
}

std::atomic<Product> &current() {
    static std::atomic<Product> value = [] {
        std::optional<Product> parsed = parseProduct(settings().soc);
        if (!parsed) {
            std::fprintf(stderr,
                         "cann_mla simulator: CANN_MLA_SIM_SOC=%s is ignored: give Ascend910B, Ascend910_93 or "
                         "Ascend950\n",
                         settings().soc.c_str());
        }
        return parsed.value_or(Product::A2);
    }();
    return value;
}

}  // namespace

Product product() { return current().load(std::memory_order_relaxed); }

bool setProduct(const std::string &name) {
    std::optional<Product> parsed = parseProduct(name);
    if (parsed) current().store(*parsed, std::memory_order_relaxed);
    return parsed.has_value();
}

const char *productName(Product product) {
    switch (product) {
        case Product::A2: return "Ascend910B";
        case Product::A3: return "Ascend910_93";
        default: return "Ascend950";
    }
}

const char *socName(Product product) {
    switch (product) {
        case Product::A2: return "Ascend910B1";
        case Product::A3: return "Ascend910_9382";
        default: return "Ascend950PR_9589";
    }
}

}  // namespace sim
