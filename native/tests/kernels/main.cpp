// Every kernel of every instruction set of this machine, and of the emulated ones, against plain loops in
// double and int64: sizes that are multiples of nothing, extremes, ties, banned tokens, values that are not
// finite, and independence of a row's result from other rows. Exits with 1 and a message on the first
// failure.
#include "check.h"
#include "tests.h"

namespace uwaga {

#if defined(__x86_64__) && !defined(UWAGA_NO_EMULATED_KERNELS)
extern const Kernels emulated_avxvnni_kernels, emulated_amx_kernels;
#endif

namespace {

void test_all(const Kernels& kernels) {
    now_testing = kernels.name;
    test_quantise(kernels);
    test_spread(kernels);
    test_norm(kernels);
    test_ssru(kernels);
    test_gates(kernels);
    test_recurrent_attention(kernels);
    test_to_float16(kernels);
    test_int8_product(kernels, 127);
    test_int8_product(kernels, 63);
    test_int8_extremes(kernels, 127);
    test_int8_extremes(kernels, 63);
    test_int8_depths(kernels, 127);
    test_int8_depths(kernels, 63);
    test_int8_not_finite(kernels);
    test_int4_product(kernels);
    test_int4_extremes(kernels);
    test_int4_output(kernels);
    test_int4_embed(kernels);
    test_int4_not_finite(kernels);
    test_float_product(kernels, false);
    test_float_product(kernels, true);
    test_output(kernels, Kind::int8);
    test_output(kernels, Kind::float32);
    test_output(kernels, Kind::bfloat16);
    test_output_terms(kernels);
    test_output_not_finite(kernels);
    test_many_output_rows(kernels);
    test_embed(kernels);
    test_attend(kernels, false);
    test_attend(kernels, true);
    test_attend_groups(kernels, false);
    test_attend_groups(kernels, true);
    test_rotate(kernels);
    test_self_attend(kernels);
    test_listed(kernels);
    std::printf("%s: passed\n", kernels.name);
    std::fflush(stdout);
}

}  // namespace
}  // namespace uwaga

using namespace uwaga;

int main() {
    now_testing = "packing";
    test_packing();
    test_int4_packing();
    for (const Isa isa :
         {Isa::portable, Isa::neon, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::amx, Isa::wasm}) {
        if (supported(isa)) {
            CHECK(kernels_of(isa).isa == isa, "the table of the instruction set");
            test_all(kernels_of(isa));
        }
    }
    if (supported(Isa::wasm)) {
        now_testing = "wasm and portable";
        test_same_bits(kernels_of(Isa::wasm), kernels_of(Isa::portable));
        std::printf("%s: passed\n", now_testing);
    }
#if defined(__x86_64__) && !defined(UWAGA_NO_EMULATED_KERNELS)
    if (supported(Isa::avx512vnni)) {
        if (!supported(Isa::avxvnni)) test_all(emulated_avxvnni_kernels);
        test_all(emulated_amx_kernels);
    }
#endif
    std::printf("best here: %s\n", kernels_of(best_isa()).name);
    return 0;
}
