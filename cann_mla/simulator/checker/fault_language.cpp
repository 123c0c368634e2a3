#include "checker/fault_language.hpp"

#include <dlfcn.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <stdexcept>

#include "core/settings.hpp"

namespace sim {
namespace {

struct NumericName {
    const char *name;
    NumericFault fault;
    bool takesOperand;
};

constexpr NumericName kNumericNames[] = {
    {"mask_past_512", NumericFault::MaskPast512, false},
    {"uniform_without_mask", NumericFault::UniformWithoutMask, false},
    {"nz_as_nd", NumericFault::NzAsNd, true},
    {"scale_dropped", NumericFault::ScaleDropped, true},
    {"last_block_unwritten", NumericFault::LastBlockUnwritten, true},
};

constexpr const char *kForms =
    "give FUNCTION[#N]=STATUS, kernel:OPERATOR[#N]=STATUS, kernel:OPERATOR[#N]=hang, memory=SIZE or "
    "numeric:FAULT[@OPERATOR or @OPERAND], several with ';' between them";

[[noreturn]] void refuse(const std::string &item, const std::string &why) {
    throw std::invalid_argument("'" + item + "': " + why);
}

std::string trimmed(const std::string &text) {
    auto isSpace = [](unsigned char c) { return std::isspace(c) != 0; };
    auto first = std::find_if_not(text.begin(), text.end(), isSpace);
    auto last = std::find_if_not(text.rbegin(), std::string::const_reverse_iterator(first), isSpace).base();
    return {first, last};
}

bool startsWith(const std::string &text, const char *prefix) { return text.rfind(prefix, 0) == 0; }

// A whole number from 1; 0 for what is none.
uint64_t number(const std::string &text) {
    bool digits = !text.empty() && text.size() <= 18 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isdigit(c) != 0;
    });
    return digits ? std::stoull(text) : 0;
}

// The simulator's own functions are known; those of ATB and HCCL may be in a library that is not loaded yet.
bool mayExist(const std::string &name) {
    if (name.find('*') != std::string::npos || !startsWith(name, "acl")) return true;
    Dl_info self;
    static void *const library = dladdr(reinterpret_cast<void *>(&parseFaults), &self) != 0
                                     ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                                     : nullptr;
    return library == nullptr || dlsym(library, name.c_str()) != nullptr;
}

void setName(const std::string &item, const std::string &name, std::string &into) {
    bool spelled = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == ':' || c == '*';
    });
    if (!spelled) refuse(item, name.empty() ? "there is no name; " + std::string(kForms) : "'" + name + "' is no name");
    if (!mayExist(name)) refuse(item, "the simulator has no function " + name);
    into = name;
}

// "aclrtMalloc#3", "aclrtMalloc#3+", "aclrtMalloc#3-5", "aclrtMalloc".
void setWho(const std::string &item, const std::string &who, CallFault &fault) {
    size_t mark = who.find('#');
    setName(item, trimmed(who.substr(0, mark)), fault.name);
    if (mark == std::string::npos) return;
    std::string which = trimmed(who.substr(mark + 1));
    size_t dash = which.find('-');
    if (!which.empty() && which.back() == '+') {
        fault.first = number(which.substr(0, which.size() - 1));
    } else if (dash != std::string::npos) {
        fault.first = number(which.substr(0, dash));
        fault.last = number(which.substr(dash + 1));
    } else {
        fault.first = fault.last = number(which);
    }
    if (fault.first == 0 || fault.last < fault.first) {
        refuse(item, "'#" + which + "' is no count; give #3 for the third call, #3+ for it and all later ones, #3-5");
    }
}

CallFault parseCall(const std::string &item, size_t equals, bool kernel) {
    CallFault fault;
    fault.text = item;
    fault.kernel = kernel;
    constexpr size_t prefix = 7;  // "kernel:"
    size_t start = kernel ? prefix : 0;
    setWho(item, trimmed(item.substr(start, equals - start)), fault);
    std::string outcome = trimmed(item.substr(equals + 1));
    fault.hangs = kernel && outcome == "hang";
    uint64_t status = number(outcome);
    if (fault.hangs) return fault;
    if (status == 0 || status > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
        refuse(item, "'" + outcome + "' is no status; give a whole number above 0" +
                         (kernel ? ", such as 507015, or hang" : ", such as 207001"));
    }
    fault.status = static_cast<int32_t>(status);
    return fault;
}

NumericChoice parseNumeric(const std::string &item) {
    constexpr size_t prefix = 8;  // "numeric:"
    size_t at = item.find('@');
    std::string name = trimmed(item.substr(prefix, at == std::string::npos ? at : at - prefix));
    NumericChoice choice{item, NumericFault::MaskPast512, at == std::string::npos ? "" : trimmed(item.substr(at + 1))};
    std::string known;
    for (const NumericName &entry : kNumericNames) {
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
        if (name != entry.name) continue;
        choice.fault = entry.fault;
        if (at == std::string::npos) return choice;
        setName(item, choice.where, choice.where);
        if (!entry.takesOperand && !choice.whereIsOperator()) {
            refuse(item, "behind @ stands the name of an operator here, such as aclnnFusedInferAttentionScoreV3");
        }
        return choice;
    }
    refuse(item, "'" + name + "' is no numeric fault; there are " + known);
}

void parseItem(const std::string &item, Faults &faults) {
    if (startsWith(item, "numeric:")) {
        faults.numeric.push_back(parseNumeric(item));
        return;
    }
    size_t equals = item.find('=');
    if (equals == std::string::npos) refuse(item, kForms);
    if (trimmed(item.substr(0, equals)) == "memory") {
        size_t bytes = parseBytes(trimmed(item.substr(equals + 1)).c_str());
        if (bytes == 0) refuse(item, "memory is bytes of each device, such as 1048576, 512K, 64M or 1G");
        faults.memory = bytes;
        return;
    }
    faults.calls.push_back(parseCall(item, equals, startsWith(item, "kernel:")));
}

}  // namespace

bool NumericChoice::whereIsOperator() const {
    return startsWith(where, "acl") || startsWith(where, "Atb") || where.find('*') != std::string::npos;
}

Faults parseFaults(const std::string &text) {
    Faults faults;
    for (size_t start = 0; start <= text.size();) {
        size_t end = std::min(text.find(';', start), text.size());
        if (std::string item = trimmed(text.substr(start, end - start)); !item.empty()) parseItem(item, faults);
        start = end + 1;
    }
    if (faults.calls.empty() && faults.numeric.empty() && !faults.memory) {
        throw std::invalid_argument("there is no fault in '" + text + "'; " + kForms);
    }
    return faults;
}

bool matches(const std::string &pattern, const char *name) { return fnmatch(pattern.c_str(), name, 0) == 0; }

}  // namespace sim
