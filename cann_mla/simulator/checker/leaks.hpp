// What a program leaves behind: one finding for each creating call.
#pragma once

#include <cstdint>

namespace sim::checker {

// At aclFinalize: handles before the runtime ends its contexts, memory afterwards.
void reportLeakedHandles();
void reportLeakedMemory();

// At the end of the process: not again what was told before, and not what the Python package made. That still had its
// owner there, and Python ends it with the interpreter.
void reportLeaksAtExit();

// What was made after the mark and lives. Forgets the mark; false when there is no such mark.
uint64_t markLiving();
bool reportLeaksSince(uint64_t mark);

}  // namespace sim::checker
