// Helpers of the kernel tests: CHECK, random numbers that are the same everywhere, memory with exact ends.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "kernels/kernels.h"

inline const char* now_testing = "";

#define CHECK(condition, ...)                                                                    \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            std::printf("FAILED [%s] %s:%d: %s: ", now_testing, __FILE__, __LINE__, #condition); \
            std::printf(__VA_ARGS__);                                                            \
            std::printf("\n");                                                                   \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

namespace uwaga {

struct Random {  // xorshift64*, the same numbers everywhere
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15ull + 1) {}
    uint64_t bits() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545f4914f6cdd1dull >> 11;
    }
    int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
    float uniform() {
        return static_cast<float>(static_cast<double>(bits()) / 9007199254740992.0 * 2.0 - 1.0);
    }
    float normal() { return uniform() + uniform() + uniform(); }
};

// Starts at a multiple of 64 bytes and ends where the allocation ends, so that the sanitizer detects reads
// beyond it.
template <class T>
class Aligned {
    static constexpr std::align_val_t line{64};
    static void release(void* p) { ::operator delete(p, line); }

    std::unique_ptr<void, void (*)(void*)> memory;

  public:
    int64_t size;
    explicit Aligned(int64_t n, T fill = T{})
        : memory(::operator new(static_cast<size_t>(n > 0 ? n : 1) * sizeof(T), line), release), size(n) {
        for (int64_t i = 0; i < n; ++i) get()[i] = fill;
    }
    T* get() const { return static_cast<T*>(memory.get()); }
    T& operator[](int64_t i) const { return get()[i]; }
};

using Floats = Aligned<float>;

inline Floats normals(Random& random, int64_t n, float scale = 1.0f) {
    Floats f(n);
    for (int64_t i = 0; i < n; ++i) f[i] = random.normal() * scale;
    return f;
}

inline bool same_bits(const float* a, const float* b, int64_t n) {
    return n < 1 || std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

}  // namespace uwaga
