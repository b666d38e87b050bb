// The tests of a kernel table; each exits with 1 and a message on the first failure.
#pragma once

#include "kernels/kernels.h"

namespace uwaga {

enum class Kind { int8, float32, bfloat16 };  // number formats of weights

void test_packing();
void test_same_bits(const Kernels& kernels, const Kernels& reference);

void test_quantise(const Kernels& kernels);
void test_spread(const Kernels& kernels);
void test_norm(const Kernels& kernels);
void test_ssru(const Kernels& kernels);
void test_gates(const Kernels& kernels);
void test_recurrent_attention(const Kernels& kernels);
void test_to_float16(const Kernels& kernels);

void test_int8_product(const Kernels& kernels, int levels);
void test_int8_extremes(const Kernels& kernels, int levels);
void test_int8_depths(const Kernels& kernels, int levels);
void test_int8_not_finite(const Kernels& kernels);
void test_int4_packing();
void test_int4_product(const Kernels& kernels);
void test_int4_extremes(const Kernels& kernels);
void test_int4_output(const Kernels& kernels);
void test_int4_embed(const Kernels& kernels);
void test_int4_not_finite(const Kernels& kernels);
void test_float_product(const Kernels& kernels, bool bfloat16);

void test_output(const Kernels& kernels, Kind kind);
void test_output_terms(const Kernels& kernels);
void test_output_not_finite(const Kernels& kernels);
void test_many_output_rows(const Kernels& kernels);
void test_embed(const Kernels& kernels);

void test_attend(const Kernels& kernels, bool float16);
void test_attend_groups(const Kernels& kernels, bool float16);
void test_rotate(const Kernels& kernels);
void test_self_attend(const Kernels& kernels);
void test_listed(const Kernels& kernels);

}  // namespace uwaga
