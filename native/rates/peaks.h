// Multiply-adds in registers, as many at a time as hide their latency: the most that an instruction set does.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace uwaga {

// Runs `iterations` iterations of multiply-adds; `operations` is the number of operations in an iteration.
struct Peak {
    void (*run)(int64_t iterations) = nullptr;  // null: there are none to measure
    int64_t operations = 0;
};

Peak integer_peak(Isa isa);  // of 8-bit numbers, summed without an error, as in the kernels
Peak float_peak(Isa isa);
// Read `bytes`, a multiple of 256, from an address aligned to 64 bytes.
uint64_t read_bytes(Isa isa, const int8_t* from, int64_t bytes);

}  // namespace uwaga
