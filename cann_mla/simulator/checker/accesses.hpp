// Who touched an allocation lately, so that two accesses without an order between them are found.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checker/clocks.hpp"
#include "checker/footprint.hpp"
#include "core/objects.hpp"
#include "core/origin.hpp"

namespace sim::checker {

// A call that touches memory: a task that it queued, or the host itself.
struct Actor {
    Origin origin;
    uint64_t number = 0;  // calls that touch memory are numbered in the order in which they were made
    bool onHost = false;
};

struct Access {
    Footprint where;  // in bytes from the start of the allocation
    bool writes = false;
    bool workspace = false;
    Epoch epoch;
    std::shared_ptr<const Actor> actor;
    const char *operand = "";
    std::shared_ptr<const TensorObject> tensor;  // null where there is none
};

class AccessHistory {
   public:
    // Calls `conflict` for every access that overlaps `access`, one of the two writing, and that `known` (the clock of
    // the place of `access`) does not cover. Each other call is shown once.
    void check(const Access &access, const Clock &known,
               const std::function<void(const Access &, Range)> &conflict) const;
    // Keeps the access, and drops those that it makes redundant: whoever meets them without an order meets this one too.
    void add(Access access, const Clock &known);
    // Drops what everybody knows to be over.
    void forget(const Clock &known);
    void clear() { accesses_.clear(); }
    const std::vector<Access> &all() const { return accesses_; }
    // There are so many that it is worth while to forget.
    bool isLong() const { return accesses_.size() >= forgetAt_; }

   private:
    static constexpr size_t kForgetAt = 32;
    static constexpr size_t kLimit = 256;   // beyond it the oldest go: a conflict may be missed, none is invented

    std::vector<Access> accesses_;
    size_t forgetAt_ = kForgetAt;
};

}  // namespace sim::checker
