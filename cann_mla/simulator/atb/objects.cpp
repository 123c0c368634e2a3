#include "atb/objects.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "checker/lifetimes.hpp"
#include "core/entry.hpp"
#include "core/settings.hpp"

namespace sim::atb {

namespace {

using Name = std::pair<Kind, const void*>;

struct Objects {
    std::mutex mutex;
    std::map<Name, void*> alive;  // the handle behind each
    std::map<Name, void*> dead;   // of objects that no other has taken the address of
};

constexpr size_t keptDead = 4096;

// Never destroyed: programs may destroy their objects from static destructors.
Objects& objects() {
    static Objects& instance = *new Objects;
    return instance;
}

void* find(const std::map<Name, void*>& handles, Kind kind, const void* address) {
    auto found = handles.find({kind, address});
    return found == handles.end() ? nullptr : found->second;
}

}  // namespace

Registered::Registered(Kind kind, const void* address, const char* api)
    : kind_(kind), address_(address), handle_(makeHandle(kind, std::make_shared<Object>(), api)) {
    std::lock_guard lock(objects().mutex);
    objects().alive[{kind, address}] = handle_;
    objects().dead.erase({kind, address});
}

Registered::~Registered() {
    retire(handle_, kind_, {currentApi()});
    std::lock_guard lock(objects().mutex);
    objects().alive.erase({kind_, address_});
    if (objects().dead.size() < keptDead) objects().dead[{kind_, address_}] = handle_;
}

bool isAlive(Kind kind, const void* address) {
    void* dead;
    {
        std::lock_guard lock(objects().mutex);
        if (find(objects().alive, kind, address) != nullptr) return true;
        dead = find(objects().dead, kind, address);
    }
    if (dead != nullptr && strict()) checker::tellDeadHandle(dead, kind, address);
    return false;
}

Origin originOfLiving(Kind kind, const void* address) {
    std::lock_guard lock(objects().mutex);
    return recordOf(find(objects().alive, kind, address)).made;
}

std::vector<const void*> living(Kind kind) {
    std::lock_guard lock(objects().mutex);
    std::vector<const void*> all;
    for (const auto& [name, handle] : objects().alive) {
        if (name.first == kind) all.push_back(name.second);
    }
    return all;
}

}  // namespace sim::atb
