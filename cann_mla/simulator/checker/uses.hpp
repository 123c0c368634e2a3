// What a queued task does with memory, as the call that queues it tells.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "checker/footprint.hpp"
#include "core/objects.hpp"

namespace sim::checker {

struct Memory;

enum class Reads : uint8_t {
    No,
    Maybe,   // bytes that are carried on, or told later: unwritten ones prove nothing
    Some,    // perhaps not all of the bytes, but not none of them either
    Surely,
};

// One range of memory.
struct Use {
    const char *name = "";  // of the operand
    const void *address = nullptr;
    Footprint where = {};  // in bytes from `address`
    Reads reads = Reads::No;
    bool writes = false;
    bool sparse = false;     // the task itself tells the rows that it touches
    bool workspace = false;
    int copyOf = -1;         // the use whose bytes land here in the same order
    std::shared_ptr<const TensorObject> tensor = {};
    std::shared_ptr<Memory> memory = {};  // the checker finds it
};
using Uses = std::vector<Use>;

// What else the checker has to know of a task.
enum class TaskKind : uint8_t {
    Work,
    Mark,      // records an event or a notify: no work that a destroyed stream would lose
    Wait,      // learns what other streams did
    HostCode,  // runs a function of the program
};

struct TaskNote {
    TaskKind kind = TaskKind::Work;
    Uses uses = {};
};

}  // namespace sim::checker
