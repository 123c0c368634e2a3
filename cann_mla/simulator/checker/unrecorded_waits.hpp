// Waits of streams for events, or notifies, that nobody has recorded: they block their stream. It is told when the host
// waits for the stream and there is still no record, or when the event or the stream ends without one: a record that
// comes in time is nobody's mistake.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "checker/finding.hpp"
#include "core/handles.hpp"

namespace sim::checker {

struct UnrecordedWait {
    int32_t stream;     // its id
    Kind kind;          // of the event
    const void *event;  // the handle
    Origin made;        // the event
    Origin wait;
    std::shared_ptr<const std::atomic<bool>> recorded;  // becomes true with the next record of the event
};

void keep(UnrecordedWait wait);
void tellUnrecordedWaits(int32_t stream);
void tellUnrecordedWaits(const void *event);

}  // namespace sim::checker
