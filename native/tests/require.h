// REQUIRE, a check that is active in every build and names its line.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void require(bool right, const char* condition, int line) {
    if (right) return;
    std::printf("line %d: %s\n", line, condition);
    std::exit(1);
}
#define REQUIRE(condition) require(condition, #condition, __LINE__)
