#include "checker/place.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

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

// "sample: main+0x1a"; "sample+0x11e9", which addr2line understands, where the symbol is not exported.
std::string frameText(uintptr_t returnAddress) {
    char offset[32];
    const void *address = reinterpret_cast<const void *>(returnAddress - 1);  // in the call, not behind it
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
        std::snprintf(offset, sizeof offset, "%p", address);
        return offset;
    }
    const void *base = info.dli_sname != nullptr ? info.dli_saddr : info.dli_fbase;
    std::snprintf(offset, sizeof offset, "+0x%zx", reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(base));
    std::string text = fileName(info.dli_fname);
    if (info.dli_sname != nullptr) text += ": " + demangled(info.dli_sname);
    return text + offset;
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
    std::vector<std::string> texts;
    if (place == nullptr) return texts;
    for (uintptr_t word : place->words) {
        texts.push_back(place->named ? reinterpret_cast<const char *>(word) : frameText(word));
    }
    return texts;
}

}  // namespace sim
