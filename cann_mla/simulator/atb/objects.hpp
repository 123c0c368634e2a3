// What the two C++ objects of ATB, Context and Operation, share: they are real pointers, not handles, so a registry
// remembers which of them are alive.
#pragma once

#include <vector>

#include "core/handles.hpp"

namespace sim::atb {

// Makes an object known under its address, and counted among the live handles of its kind, as long as this exists.
class Registered {
   public:
    Registered(Kind kind, const void* address, const char* api);
    ~Registered();
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;

   private:
    const Kind kind_;
    const void* const address_;
    void* const handle_;
};

// Whether an object of that kind lives at the address. Touches no memory there. In strict mode, asking for one that
// lived there and was destroyed is a finding.
bool isAlive(Kind kind, const void* address);

// The call that made the living object at an address.
Origin originOfLiving(Kind kind, const void* address);

// The addresses of all living objects of a kind. They may die at any moment.
std::vector<const void*> living(Kind kind);

}  // namespace sim::atb
