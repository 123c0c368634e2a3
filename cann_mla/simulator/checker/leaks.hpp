// What a program leaves behind.
#pragma once

namespace sim::checker {

// One finding for each creating call. At the end of the process, `endedByPackage` leaves out what the Python package
// made: it still had its owner there, and Python ends it with the interpreter.
void reportLeakedHandles(bool endedByPackage);
void reportLeakedMemory(bool endedByPackage);

}  // namespace sim::checker
