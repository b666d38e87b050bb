// Rates that this machine reaches: of reading memory, of products in registers, and of the kernels.
//
// A rate is that of all threads together, each with rows of its own, and the highest of several rounds: other
// programs only make a round slower. Each measurement takes about the seconds that it is given, and at least
// one call.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "runtime/buffer.h"

namespace uwaga {

enum class Numbers : int { int8 = 0, int4 = 1, bfloat16 = 2, float32 = 3 };

// Operations (a multiplication and an addition are two) and bytes of weights or inputs, per second.
struct Rate {
    double operations = 0, bytes = 0;
};

class Rates {
  public:
    // `size`: bytes of memory from which weights are read in turn; more than the caches hold, to measure
    // memory.
    Rates(const Kernels& kernels, int64_t size, int64_t threads);

    // Bytes per second of reading the first `bytes` of the memory again and again, shared out among
    // `threads`.
    double read(int64_t bytes, int64_t threads, double seconds) const;
    // Operations per second of multiply-adds of the instruction set in registers; 0 for the portable kernels.
    double peak(Numbers numbers, double seconds) const;
    // Rows by matrices (outputs, inputs), which follow each other in memory as in a model.
    Rate product(Numbers numbers, int64_t rows, int64_t inputs, int64_t outputs, double seconds) const;
    // The same for output layers, with the 8 best tokens of each row.
    Rate output(Numbers numbers, int64_t rows, int64_t inputs, int64_t outputs, double seconds) const;
    // Rows of `width` numbers in cache; operations are not counted.
    Rate quantise(int64_t rows, int64_t width, double seconds) const;
    Rate norm(int64_t rows, int64_t width, double seconds) const;
    // Attention of rows of 8 heads, `width` numbers, over float16 keys and values at `length` positions each:
    // those of one row again and again, from a cache, or of others in turn from all of the memory.
    Rate attention(int64_t rows, int64_t width, int64_t length, bool from_cache, double seconds) const;

  private:
    Rate with_matrices(Numbers numbers, bool is_output, int64_t rows, int64_t inputs, int64_t outputs,
                       double seconds) const;

    const Kernels& kernels_;
    const int64_t size_, threads_;
    Buffer<int8_t> memory_;
};

}  // namespace uwaga
