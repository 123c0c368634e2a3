// Assertions for the programs in this folder: the first that fails tells where and what, and ends the program with 1.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "acl/acl_rt.h"

template <typename A, typename B>
void checkEqual(const A &actual, const B &expected, const char *expression, const char *file, int line) {
    if (actual == expected) return;
    std::ostringstream text;
    text << file << ":" << line << ": " << expression << " is " << actual << ", expected " << expected;
    if (const char *message = aclGetRecentErrMsg()) text << " (" << message << ")";
    std::fprintf(stderr, "%s\n", text.str().c_str());
    std::exit(1);
}

inline void checkTrue(bool condition, const char *expression, const char *file, int line) {
    if (condition) return;
    std::fprintf(stderr, "%s:%d: not true: %s\n", file, line, expression);
    std::exit(1);
}

// The text of the last failing call holds `part`; the text is fetched, so it is gone afterwards.
inline void checkText(const char *part, const char *file, int line) {
    const char *message = aclGetRecentErrMsg();
    if (message != nullptr && std::strstr(message, part) != nullptr) return;
    std::fprintf(stderr, "%s:%d: the error text is '%s', expected one with '%s'\n", file, line,
                 message == nullptr ? "(none)" : message, part);
    std::exit(1);
}

#define CHECK_EQ(actual, expected) checkEqual((actual), (expected), #actual, __FILE__, __LINE__)
#define CHECK(condition) checkTrue((condition), #condition, __FILE__, __LINE__)
#define CHECK_TEXT(part) checkText((part), __FILE__, __LINE__)
#define OK(call) CHECK_EQ((call), 0)
