#include "checker/symbols.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <vector>

namespace sim {
namespace {

// Reads `count` things from a place in the file; empty when it ends before.
template <typename T>
std::vector<T> read(std::ifstream &file, uint64_t offset, uint64_t count) {
    constexpr uint64_t most = uint64_t{1} << 28;  // a broken file may ask for anything
    if (count > most / sizeof(T)) return {};
    std::vector<T> things(count);
    file.clear();
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char *>(things.data()), static_cast<std::streamsize>(count * sizeof(T)));
    return file ? things : std::vector<T>{};
}

bool isFunctionAround(const Elf64_Sym &symbol, uint64_t address) {
    return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && address >= symbol.st_value &&
           address - symbol.st_value < symbol.st_size;
}

}  // namespace

std::optional<Symbol> findSymbol(const char *path, uintptr_t base, uintptr_t address) {
    std::ifstream file(path, std::ios::binary);
    const auto header = read<Elf64_Ehdr>(file, 0, 1);
    if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
        header[0].e_ident[EI_CLASS] != ELFCLASS64) {
        return std::nullopt;
    }
    const uint64_t fixed = header[0].e_type == ET_EXEC ? base : 0;  // symbols of such a file hold real addresses
    const auto sections = read<Elf64_Shdr>(file, header[0].e_shoff, header[0].e_shnum);
    for (const Elf64_Shdr &section : sections) {
        if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
        const Elf64_Shdr &strings = sections[section.sh_link];
        const auto names = read<char>(file, strings.sh_offset, strings.sh_size);
        for (const Elf64_Sym &symbol : read<Elf64_Sym>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
            if (!isFunctionAround(symbol, address + fixed) || symbol.st_name >= names.size()) continue;
            const char *name = names.data() + symbol.st_name;
            return Symbol{std::string(name, strnlen(name, names.size() - symbol.st_name)), symbol.st_value - fixed};
        }
    }
    return std::nullopt;
}

}  // namespace sim
