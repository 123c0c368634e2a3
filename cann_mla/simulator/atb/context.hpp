// atb::Context: which streams operations run on.
#pragma once

#include <mutex>
#include <vector>

#include "atb/context.h"
#include "atb/objects.hpp"

namespace sim::atb {

class Context final : public ::atb::Context {
   public:
    ::atb::Status SetExecuteStream(aclrtStream stream) override;
    aclrtStream GetExecuteStream() const override;
    ::atb::Status SetAsyncTilingCopyStatus(bool enable) override;
    bool GetAsyncTilingCopyStatus() const override;
    ::atb::Status SetExecuteStreams(const std::vector<aclrtStream>& streams) override;
    std::vector<aclrtStream> GetExecuteStreams() override;
    ::atb::Status SetExecuteType(::atb::ExecuteType type) override;
    ::atb::ExecuteType GetExecuteType() override;
    ::atb::Status SetLaunchMode(::atb::LaunchMode mode) override;
    ::atb::LaunchMode GetLaunchMode() override;

    // The stream of that number; null when there are not so many.
    aclrtStream stream(uint32_t number) const;

   private:
    mutable std::mutex mutex_;
    std::vector<aclrtStream> streams_{nullptr};
    bool asyncTilingCopy_ = false;
    const Registered registered_{Kind::AtbContext, static_cast<::atb::Context*>(this), "atb::CreateContext"};
};

// The living context at an address; nullptr for null and for what is none.
Context* findContext(::atb::Context* context);

}  // namespace sim::atb
