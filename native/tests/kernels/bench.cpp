// Rates of the kernels with OPUS-MT's shapes on one thread, next to what this machine reaches in the same
// minute: reading memory, and products in registers. `uwaga bench` measures with the same code
// (native/rates/).
#include <cstdio>
#include <cstring>
#include <vector>

#include "rates/rates.h"

#if defined(__x86_64__)
namespace uwaga {
extern const Kernels emulated_avxvnni_kernels;
}
#endif

using namespace uwaga;

namespace {

constexpr int64_t memory = int64_t{1} << 28;
constexpr double seconds = 0.05;
constexpr double giga = 1e9;

struct Case {
    const char* name;
    int64_t inputs, outputs;
};

void limits(const Kernels& kernels) {
    const Rates rates(kernels, memory, 1);
    std::printf(
        "%s: reading %lld MB %.1f GB/s, 4 MB %.1f GB/s; products in registers: int8 %.0f GOP/s, float32 %.0f GOP/s\n",
        kernels.name, static_cast<long long>(memory >> 20), rates.read(memory, 1, 5 * seconds) / giga,
        rates.read(4 << 20, 1, seconds) / giga, rates.peak(Numbers::int8, seconds) / giga,
        rates.peak(Numbers::float32, seconds) / giga);
}

void products(const Kernels& kernels, Numbers numbers, const std::vector<int64_t>& row_counts) {
    const char* names[] = {"int8", "int4", "bfloat16", "float32"};
    const Rates rates(kernels, memory, 1);
    std::printf("%s, %s: GB/s of weights and GOP/s at rows =", kernels.name,
                names[static_cast<int>(numbers)]);
    for (const int64_t rows : row_counts) std::printf(" %lld", static_cast<long long>(rows));
    std::printf("\n");
    for (const Case c : {Case{"512x512", 512, 512},
                         {"512x2048", 512, 2048},
                         {"2048x512", 2048, 512},
                         {"512x58101", 512, 58101}}) {
        std::printf("  %-10s", c.name);
        for (const int64_t rows : row_counts) {
            const Rate rate = c.outputs > 10000 ? rates.output(numbers, rows, c.inputs, c.outputs, seconds)
                                                : rates.product(numbers, rows, c.inputs, c.outputs, seconds);
            std::printf("  %5.1f %5.0f", rate.bytes / giga, rate.operations / giga);
            std::fflush(stdout);
        }
        std::printf("\n");
    }
}

void small_kernels(const Kernels& kernels) {
    const int64_t rows = 32, width = 512, length = 16;
    const Rates rates(kernels, memory, 1);
    const auto row = [](const Rate& rate, int64_t bytes) {
        return giga * static_cast<double>(bytes) / rate.bytes;
    };  // nanoseconds
    std::printf(
        "%s: a row of 512: quantise %.0f ns, norm %.0f ns, attention over 16 positions %.0f ns in cache, %.0f ns spread over %lld MB\n",
        kernels.name, row(rates.quantise(rows, width, seconds), 4 * width),
        row(rates.norm(rows, width, seconds), 4 * width),
        row(rates.attention(rows, width, length, true, seconds), 4 * width * length),
        row(rates.attention(rows, width, length, false, seconds), 4 * width * length),
        static_cast<long long>(memory >> 20));
}

}  // namespace

int main(int count, char** arguments) {  // arguments: names of instruction sets; none for all
    const auto selected = [&](const char* name) {
        for (int i = 1; i < count; ++i) {
            if (std::strcmp(arguments[i], name) == 0) return true;
        }
        return count == 1;
    };
    const std::vector<int64_t> row_counts{1, 4, 8, 32, 64, 128};
    for (const Isa isa : {Isa::amx, Isa::avx512vnni, Isa::avxvnni, Isa::avx2, Isa::neon, Isa::portable}) {
        const Kernels& kernels = kernels_of(isa);
        if (!supported(isa) || !selected(kernels.name)) continue;
        limits(kernels);
        small_kernels(kernels);
        products(kernels, Numbers::int8, isa == Isa::portable ? std::vector<int64_t>{1, 8} : row_counts);
        products(kernels, Numbers::int4, isa == Isa::portable ? std::vector<int64_t>{1, 8} : row_counts);
        if (isa == Isa::portable) continue;
        products(kernels, Numbers::float32, {1, 8, 32});
        products(kernels, Numbers::bfloat16, {1, 8, 32});
    }
#if defined(__x86_64__)
    if (supported(Isa::avx512vnni) && !supported(Isa::avxvnni) && selected("avxvnni")) {
        std::printf("the next with AVX-512 VNNI at 256 bits instead\n");
        products(emulated_avxvnni_kernels, Numbers::int8, row_counts);
        products(emulated_avxvnni_kernels, Numbers::int4, row_counts);
    }
#endif
    return 0;
}
