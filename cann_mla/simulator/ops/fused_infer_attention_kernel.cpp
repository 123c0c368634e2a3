#include "ops/fused_infer_attention_kernel.hpp"

#include <memory>
#include <utility>

#include "numeric/parallel.hpp"
#include "ops/fused_infer_attention_flash.hpp"
#include "ops/fused_infer_attention_output.hpp"

namespace sim::fia {

Kernel makeKernel(Plan given) {
    auto plan = std::make_shared<const Plan>(std::move(given));
    return [plan](const Launch &launch) {
        Operands operands;
        bindOutputs(*plan, launch, operands);
        if (plan->nothingToAttend) return clearOutputs(*plan, operands);
        operands = bindOperands(*plan, launch);
        clearOutputs(*plan, operands);
        Tiling tiling(*plan, operands.batches);
        if (launch.isWatched()) tellRowsRead(*plan, operands, tiling, launch);
        numeric::parallelFor(tiling.count(), [&](size_t i) { attend(*plan, operands, tiling.tile(i)); });
    };
}

}  // namespace sim::fia
