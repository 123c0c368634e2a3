// What every operand of MlaProlog must look like once scenario and sizes are known.
#pragma once

#include "ops/mla_prolog.hpp"
#include "ops/mla_prolog_text.hpp"

#include <string>
#include <vector>

namespace sim::mla_prolog {

enum class Presence { Required, Optional, Forbidden };

struct Expected {
    const char *name;  // the C parameter
    const TensorDesc *found;
    Presence presence;
    aclDataType dtype;
    Shape shape;
    bool fractalNz = false;
};

// In the order of the C parameters.
std::vector<Expected> expectedOperands(const Params &params, const Scenario &scenario, const Sizes &sizes);

// "" when the operand is as expected.
std::string faultOf(const Expected &operand);

}  // namespace sim::mla_prolog
