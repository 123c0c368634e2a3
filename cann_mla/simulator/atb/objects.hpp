// What the two C++ objects of ATB, Context and Operation, share: they are real pointers, not handles, so a registry
// remembers which of them are alive.
#pragma once

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

// Whether an object of that kind lives at the address. Touches no memory there.
bool isAlive(Kind kind, const void* address);

}  // namespace sim::atb
