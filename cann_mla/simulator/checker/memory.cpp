#include "checker/memory.hpp"

#include <algorithm>
#include <iterator>

#include "core/device_memory.hpp"
#include "runtime/host_memory.hpp"

namespace sim::checker {

std::shared_ptr<Memory> Memories::add(const void *address, size_t size, int32_t device, const Origin &made) {
    auto memory = std::make_shared<Memory>();
    memory->begin = reinterpret_cast<uintptr_t>(address);
    memory->size = size;
    memory->device = device;
    memory->made = made;
    live_[memory->begin] = memory;
    return memory;
}

std::shared_ptr<Memory> Memories::find(const void *address) {
    auto after = live_.upper_bound(reinterpret_cast<uintptr_t>(address));
    if (after != live_.begin() && std::prev(after)->second->contains(address)) return std::prev(after)->second;
    Origin made;
    std::shared_ptr<Memory> memory;
    if (auto allocation = findAllocation(address)) {
        made = allocation->made;
        memory = add(allocation->address, allocation->size, allocation->device, made);
    } else if (auto pinned = findPinned(address)) {
        made = pinned->made;
        memory = add(pinned->address, pinned->size, kHostMemory, made);
    }
    if (memory) memory->written.addEverything();
    return memory;
}

std::shared_ptr<Memory> Memories::findFreed(const void *address) const {
    auto found = std::find_if(freed_.rbegin(), freed_.rend(),
                              [&](const std::shared_ptr<Memory> &memory) { return memory->contains(address); });
    return found == freed_.rend() ? nullptr : *found;
}

void Memories::free(const std::shared_ptr<Memory> &memory, const Origin &freed, uint64_t freer) {
    memory->freed = freed;
    memory->accesses.clear();
    memory->written = {};
    memory->gone = true;
    memory->freer = freer;
    live_.erase(memory->begin);
    freed_.push_back(memory);
    if (freed_.size() > kKeptFreed) freed_.pop_front();
}

void Memories::clear() {
    live_.clear();
    freed_.clear();
}

}  // namespace sim::checker
