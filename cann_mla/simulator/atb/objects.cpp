#include "atb/objects.hpp"

#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace sim::atb {

namespace {

struct Alive {
    std::mutex mutex;
    std::set<std::pair<Kind, const void*>> objects;
};

// Never destroyed: programs may destroy their objects from static destructors.
Alive& alive() {
    static Alive& instance = *new Alive;
    return instance;
}

}  // namespace

Registered::Registered(Kind kind, const void* address, const char* api)
    : kind_(kind), address_(address), handle_(makeHandle(kind, std::make_shared<Object>(), api)) {
    std::lock_guard lock(alive().mutex);
    alive().objects.emplace(kind, address);
}

Registered::~Registered() {
    {
        std::lock_guard lock(alive().mutex);
        alive().objects.erase({kind_, address_});
    }
    retire(handle_, kind_, {});
}

bool isAlive(Kind kind, const void* address) {
    std::lock_guard lock(alive().mutex);
    return alive().objects.count({kind, address}) > 0;
}

}  // namespace sim::atb
