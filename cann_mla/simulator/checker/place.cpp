#include "checker/place.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "checker/stack.hpp"
#include "checker/symbols.hpp"

namespace sim {
namespace {

std::atomic<cannMlaSimLocator> theLocator{nullptr};

struct Words {
    std::array<uintptr_t, kFrames> words{};
    size_t count = 0;
    bool named = false;

    size_t hash() const {
        size_t value = count + (named ? 1 : 0);
        for (size_t i = 0; i < count; ++i) value = (value ^ words[i]) * 0x9E3779B97F4A7C15u;
        return value ^ value >> 32;
    }
    bool equals(const Place &place) const {
        return place.named == named && place.words.size() == count &&
               std::equal(words.begin(), words.begin() + count, place.words.begin());
    }
};

// All places there ever were: as many as there are call paths in the program that lead to the simulator.
struct Places {
    std::mutex mutex;
    std::unordered_multimap<size_t, std::unique_ptr<Place>> byHash;
};

Places &places() {
    static Places &instance = *new Places;
    return instance;
}

// Each thread remembers the places that it met last, so that it rarely needs the table of all.
const Place *&recent(size_t hash) {
    constexpr size_t kRecent = 1024;
    thread_local std::array<const Place *, kRecent> places{};
    return places[hash % kRecent];
}

// The place, if this thread met it not long ago.
const Place *recall(const Words &words) {
    const Place *place = recent(words.hash());
    return place != nullptr && words.equals(*place) ? place : nullptr;
}

const Place *intern(const Words &words) {
    if (const Place *known = recall(words)) return known;
    const size_t hash = words.hash();
    const Place *&slot = recent(hash);
    std::lock_guard lock(places().mutex);
    auto [found, end] = places().byHash.equal_range(hash);
    for (; found != end; ++found) {
        if (words.equals(*found->second)) return slot = found->second.get();
    }
    auto made = std::make_unique<Place>();
    made->words.assign(words.words.begin(), words.words.begin() + words.count);
    made->named = words.named;
    slot = made.get();
    places().byHash.emplace(hash, std::move(made));
    return slot;
}

// The C stack. What was found for a thread before is found again without unwinding.
const Place *backtrace(const Caller &caller) {
    const Stack quick = guess(caller.returnAddress, caller.frameEnd);
    if (quick.count > 0) {
        if (const Place *known = recall({quick.frames, quick.count, false})) return known;
    }
    const Stack stack = unwind(caller.returnAddress);
    return intern({stack.frames, stack.count, false});
}

std::string fileName(const char *path) {
    const char *slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

std::string demangled(const char *symbol) {
    int status = 0;
    char *text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    std::string result = status == 0 && text != nullptr ? text : symbol;
    std::free(text);
    return result;
}

std::string hex(uintptr_t number) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%zx", number);
    return text;
}

// Where an address of the program's code lies.
struct CodePoint {
    std::string file;      // its name without folders; empty when unknown
    std::string function;  // mangled; empty when unknown
    uintptr_t offset = 0;  // from the start of the function
    uintptr_t linked = 0;  // the address that the linker gave it
};

CodePoint find(uintptr_t address) {
    Dl_info info;
    void *map = nullptr;
    const auto *code = reinterpret_cast<const void *>(address);
    if (dladdr1(code, &info, &map, RTLD_DL_LINKMAP) == 0 || info.dli_fname == nullptr) return {"", "", 0, address};
    const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
    // Programs that are not position independent lie where they were linked, whatever their base is.
    const uintptr_t moved = map == nullptr ? base : static_cast<const link_map *>(map)->l_addr;
    CodePoint point{fileName(info.dli_fname), "", address - base, address - moved};
    // The nearest exported symbol may be that of another function: what the file itself says comes first.
    if (auto symbol = findSymbol(info.dli_fname, base, point.offset)) {
        point.function = symbol->name;
        point.offset -= symbol->start;
    } else if (info.dli_sname != nullptr) {
        point.function = info.dli_sname;
        point.offset = address - reinterpret_cast<uintptr_t>(info.dli_saddr);
    }
    return point;
}

// "sample: main+0x1a [0x11e9]"; "sample+0x11e9" where the file is stripped. addr2line understands 0x11e9; it does not
// understand the names of lambdas and templates.
std::string frameText(const CodePoint &point) {
    if (point.file.empty()) return hex(point.linked);
    if (point.function.empty()) return point.file + "+" + hex(point.linked);
    const std::string name = point.file + ": " + demangled(point.function.c_str());
    return name + "+" + hex(point.offset) + " [" + hex(point.linked) + "]";
}

bool isOfLibc(const CodePoint &point) { return point.file.rfind("libc.so", 0) == 0; }

std::vector<std::string> stackText(const Place &place) {
    std::vector<std::string> texts;
    for (uintptr_t returnAddress : place.words) {
        const CodePoint point = find(returnAddress - 1);  // in the call, not behind it
        if (!texts.empty() && isOfLibc(point)) break;     // what starts programs and threads
        texts.push_back(frameText(point));
    }
    return texts;
}

}  // namespace

Located locate(const Caller &caller) {
    Located found;
    if (cannMlaSimLocator locator = theLocator.load(std::memory_order_acquire)) {
        std::array<const char *, kFrames> texts{};
        int32_t inside = 0;
        Words words;
        words.named = true;
        words.count = std::min(locator(texts.data(), kFrames, &inside), kFrames);
        std::transform(texts.begin(), texts.begin() + words.count, words.words.begin(),
                       [](const char *text) { return reinterpret_cast<uintptr_t>(text); });
        found.insidePackage = inside != 0;
        if (words.count > 0) found.place = intern(words);
    }
    if (found.place == nullptr) found.place = backtrace(caller);
    return found;
}

void setLocator(cannMlaSimLocator locator) { theLocator.store(locator, std::memory_order_release); }

std::vector<std::string> textOf(const Place *place) {
    if (place == nullptr) return {};
    // Symbol tables are long, and a mistake in a loop is put into words in every round.
    static std::mutex &mutex = *new std::mutex;
    static auto &known = *new std::unordered_map<const Place *, std::vector<std::string>>;
    std::lock_guard lock(mutex);
    auto [found, isNew] = known.try_emplace(place);
    if (!isNew) return found->second;
    if (!place->named) return found->second = stackText(*place);
    for (uintptr_t word : place->words) found->second.push_back(reinterpret_cast<const char *>(word));
    return found->second;
}

}  // namespace sim
