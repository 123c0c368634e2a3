// aclnnNpuFormatCast and the function that sizes its result.
#pragma once

#include "ops/weight_layout.hpp"

namespace sim::format_cast {

inline bool isPlain(aclFormat format) {
    return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCL || format == ACL_FORMAT_NCHW ||
           format == ACL_FORMAT_NCDHW;
}

std::optional<Rejection> checkCast(const TensorDesc *src, const TensorDesc *dst, const PhaseOne &call);

}  // namespace sim::format_cast
