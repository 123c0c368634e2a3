// The product that the simulator imitates.
#pragma once

#include <string>

namespace sim __attribute__((visibility("default"))) {

enum class Product { A2, A3, A950 };

// The process-wide setting: CANN_MLA_SIM_SOC, later cannMlaSimSetSoc. Ascend910B when nothing is set.
Product product();

// "Ascend910B", "Ascend910_93", "Ascend950".
const char *productName(Product product);

// The chip that aclrtGetSocName reports for the product.
const char *socName(Product product);

// False when the text names no product; nothing changes then.
bool setProduct(const std::string &name);

}  // namespace sim
