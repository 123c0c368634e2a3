// Names of functions that a program does not export, from the symbol table in its file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sim {

struct Symbol {
    std::string name;  // mangled
    uintptr_t start;   // relative to where the file is loaded
};

// The function around an address, both relative to where the file is loaded; nullopt for a stripped or unreadable file.
std::optional<Symbol> findSymbol(const char *path, uintptr_t base, uintptr_t address);

}  // namespace sim
