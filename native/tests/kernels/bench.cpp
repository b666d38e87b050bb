// Rates of the products and of the output layer with OPUS-MT's shapes, next to two loops that show what this machine
// reaches in the same minute: reading memory, and dot products from registers.
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"

#if defined(__x86_64__)
#include "kernels/shared/intrinsics.h"
namespace uwaga {
extern const Kernels emulated_avxvnni_kernels;
}
#endif

using namespace uwaga;

namespace {

// CPU seconds of this thread: other programs on the machine have little effect.
double now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class T>
T* aligned(int64_t n) {
    void* p = nullptr;
    if (posix_memalign(&p, 64, static_cast<size_t>(n) * sizeof(T) + 64) != 0) std::abort();
    std::memset(p, 0, static_cast<size_t>(n) * sizeof(T) + 64);
    return static_cast<T*>(p);
}

// Shortest time of one call. At least 4 calls and 0.05 seconds.
template <class F>
double best_time(const F& f) {
    f();
    double best = 1e9, spent = 0;
    for (int i = 0; i < 4 || (spent < 0.05 && i < 2000); ++i) {
        const double start = now();
        f();
        const double took = now() - start;
        best = took < best ? took : best;
        spent += took;
    }
    return best;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void baselines() {
    const int64_t size = 256 << 20;
    const char* memory = aligned<char>(size);
    volatile int64_t sink = 0;
    const double read = best_time([&]() __attribute__((target("avx2"))) {
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
        for (int64_t i = 0; i < size; i += 128) {
            const __m256i* p = reinterpret_cast<const __m256i*>(memory + i);
            _mm_prefetch(memory + i + 4096, _MM_HINT_T0);
            _mm_prefetch(memory + i + 4160, _MM_HINT_T0);
            a = _mm256_xor_si256(a, p[0]);
            b = _mm256_xor_si256(b, p[1]);
            c = _mm256_xor_si256(c, p[2]);
            d = _mm256_xor_si256(d, p[3]);
        }
        sink = sink + _mm256_extract_epi64(_mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)), 0);
    });
    std::printf("reading memory            %6.1f GB/s\n", static_cast<double>(size) / read / 1e9);
    std::free(const_cast<char*>(memory));
}
__attribute__((target("avx512f,avx512vnni"))) void peak_vnni() {
    const int64_t turns = 1000000;
    volatile int sink = 0;
    const double took = best_time([&]() __attribute__((target("avx512f,avx512vnni"))) {
        __m512i s[12];
        for (auto& v : s) v = _mm512_setzero_si512();
        const __m512i x = _mm512_set1_epi8(static_cast<char>(sink + 1)), w = _mm512_set1_epi8(3);
        for (int64_t i = 0; i < turns; ++i) {
#pragma GCC unroll 12
            for (auto& v : s) v = _mm512_dpbusd_epi32(v, x, w);
        }
        for (auto& v : s) sink = sink + _mm_cvtsi128_si32(_mm512_castsi512_si128(v));
    });
    std::printf("dot products in registers %6.0f GOP/s (AVX512-VNNI)\n", static_cast<double>(turns) * 12 * 128 / took / 1e9);
}
#endif

struct Case {
    const char* what;
    int64_t inputs, outputs;
};

enum class Numbers { int8, int4, float32, bfloat16 };

void run(const Kernels& kernels, Numbers numbers, const std::vector<int64_t>& row_counts) {
    const char* names[] = {"int8", "int4", "float32", "bfloat16"};
    std::printf("%s, %s: GB/s of weights and GOP/s at rows =", kernels.name, names[static_cast<int>(numbers)]);
    for (const int64_t rows : row_counts) std::printf(" %lld", static_cast<long long>(rows));
    std::printf("\n");
    for (const Case c : {Case{"512x512", 512, 512}, {"512x2048", 512, 2048}, {"2048x512", 2048, 512}, {"512x58101", 512, 58101}}) {
        // More copies than a cache holds, used in turn and adjacent in memory, as in a model.
        const bool integers = numbers == Numbers::int8 || numbers == Numbers::int4;
        const int64_t width = integers ? 1 : numbers == Numbers::bfloat16 ? 2 : 4;
        const int64_t elements = numbers == Numbers::int4 ? int4_panels_size(c.outputs, c.inputs) : integers ? int8_panels_size(c.outputs, c.inputs) : numbers == Numbers::bfloat16 ? bfloat16_panels_size(c.outputs, c.inputs) : float_panels_size(c.outputs, c.inputs);
        const int64_t copies = c.outputs > 10000 ? 2 : (96 << 20) / (elements * width) + 1;
        int8_t* memory = aligned<int8_t>(copies * elements * width);
        std::memset(memory, integers ? 1 : 0x3c, static_cast<size_t>(copies * elements * width));
        const int64_t most = 128, stride = c.inputs + 64;
        float *scales = aligned<float>(padded_outputs(c.outputs)), *x = aligned<float>(most * c.inputs), *y = aligned<float>(most * c.outputs), *row_scales = aligned<float>(most);
        int32_t* sums = aligned<int32_t>(padded_outputs(c.outputs));
        uint8_t* values = aligned<uint8_t>(most * stride);
        for (int64_t i = 0; i < most * c.inputs; ++i) x[i] = std::sin(static_cast<float>(i));
        for (int64_t i = 0; i < padded_outputs(c.outputs); ++i) scales[i] = 0.001f;
        kernels.quantise(x, most, c.inputs, c.inputs, values, row_scales, stride);
        std::vector<OutputRow> out(static_cast<size_t>(most));
        std::vector<Candidate> best(static_cast<size_t>(most) * 8);
        for (size_t i = 0; i < out.size(); ++i) out[i].count = 8, out[i].best = &best[8 * i];
        std::printf("  %-10s", c.what);
        for (const int64_t rows : row_counts) {
            const double took = best_time([&] {
                for (int64_t copy = 0; copy < copies; ++copy) {
                    const int8_t* panels = memory + copy * elements * width;
                    const QuantisedRows q{values, row_scales, stride};
                    if (numbers == Numbers::int4) {
                        const Int4Matrix w{reinterpret_cast<const uint8_t*>(panels), scales, sums, c.outputs, c.inputs};
                        if (c.outputs > 10000) kernels.int4_output(q, rows, w, {}, out.data());
                        else kernels.int4_product(q, rows, w, Epilogue{}, y, c.outputs);
                    } else if (integers) {
                        const Int8Matrix w{panels, scales, sums, c.outputs, c.inputs};
                        if (c.outputs > 10000) kernels.int8_output(q, rows, w, {}, out.data());
                        else kernels.int8_product(q, rows, w, Epilogue{}, y, c.outputs);
                    } else if (numbers == Numbers::bfloat16) {
                        const Bfloat16Matrix w{reinterpret_cast<const uint16_t*>(panels), c.outputs, c.inputs};
                        if (c.outputs > 10000) kernels.bfloat16_output(x, rows, c.inputs, w, {}, out.data());
                        else kernels.bfloat16_product(x, rows, c.inputs, w, Epilogue{}, y, c.outputs);
                    } else {
                        const FloatMatrix w{reinterpret_cast<const float*>(panels), c.outputs, c.inputs};
                        if (c.outputs > 10000) kernels.float_output(x, rows, c.inputs, w, {}, out.data());
                        else kernels.float_product(x, rows, c.inputs, w, Epilogue{}, y, c.outputs);
                    }
                }
            });
            const double each = took / static_cast<double>(copies);
            std::printf("  %5.1f %5.0f", static_cast<double>(elements * width) / each / 1e9, 2.0 * static_cast<double>(rows * c.inputs * c.outputs) / each / 1e9);
            std::fflush(stdout);
        }
        std::printf("\n");
        for (void* p : {static_cast<void*>(memory), static_cast<void*>(scales), static_cast<void*>(x), static_cast<void*>(y), static_cast<void*>(row_scales), static_cast<void*>(sums), static_cast<void*>(values)}) std::free(p);
    }
}

void small_kernels(const Kernels& kernels) {
    const int64_t rows = 32, width = 512, length = 16;
    float *x = aligned<float>(rows * width), *y = aligned<float>(rows * width), *scales = aligned<float>(rows), *weights = aligned<float>(8 * 64);
    uint8_t* values = aligned<uint8_t>(rows * width);
    const int64_t stored = 1600;  // exceeds a cache of 32 MB
    uint16_t* cache = aligned<uint16_t>(stored * length * 1024);
    std::vector<int64_t> offsets;
    for (int64_t t = 0; t < length; ++t) offsets.push_back(t * 1024);
    for (int64_t i = 0; i < rows * width; ++i) x[i] = std::sin(static_cast<float>(i));
    const double rows_d = static_cast<double>(rows);
    const double quantise = best_time([&] { kernels.quantise(x, rows, width, width, values, scales, width); }) / rows_d;
    const double norm = best_time([&] { kernels.norm(x, rows, width, width, x, x, 1e-5f, false, y, width); }) / rows_d;
    int64_t turn = 0;
    const auto attention = [&](int64_t rows_in_turn) {  // number of rows whose keys and values are used in turn
        return best_time([&] {
            for (int64_t r = 0; r < rows; ++r, ++turn) {
                const uint16_t* keys = cache + turn % rows_in_turn * length * 1024;
                CachedAttention a;
                a.query = x + r * width;
                a.offsets = offsets.data();
                a.length = length;
                a.heads = 8;
                a.head_width = a.head_stride = 64;
                a.scale = 0.125f;
                a.weights = weights;
                a.context = y + r * width;
                kernels.attend_float16(a, keys, keys + 512);
            }
        }) / rows_d;
    };
    const double near = attention(1), far = attention(stored);
    std::printf("%s: a row of 512: quantise %.0f ns, norm %.0f ns, attention over 16 positions %.0f ns in cache, %.0f ns spread over %lld MB\n", kernels.name,
                quantise * 1e9, norm * 1e9, near * 1e9, far * 1e9, static_cast<long long>(stored * length * 2048 >> 20));
    for (void* p : {static_cast<void*>(x), static_cast<void*>(y), static_cast<void*>(scales), static_cast<void*>(weights), static_cast<void*>(values), static_cast<void*>(cache)}) std::free(p);
}

}  // namespace

int main(int count, char** arguments) {  // arguments: names of instruction sets; none for all
    const auto asked = [&](const char* name) {
        for (int i = 1; i < count; ++i) {
            if (std::strcmp(arguments[i], name) == 0) return true;
        }
        return count == 1;
    };
#if defined(__x86_64__)
    if (supported(Isa::avx2)) baselines();
    if (supported(Isa::avx512vnni)) peak_vnni();
#endif
    const std::vector<int64_t> row_counts{1, 4, 8, 32, 64, 128};
    for (const Isa isa : {Isa::amx, Isa::avx512vnni, Isa::avxvnni, Isa::avx2, Isa::neon, Isa::portable}) {
        const Kernels& kernels = kernels_of(isa);
        if (!supported(isa) || !asked(kernels.name)) continue;
        small_kernels(kernels);
        run(kernels, Numbers::int8, isa == Isa::portable ? std::vector<int64_t>{1, 8} : row_counts);
        run(kernels, Numbers::int4, isa == Isa::portable ? std::vector<int64_t>{1, 8} : row_counts);
        if (isa == Isa::portable) continue;
        run(kernels, Numbers::float32, {1, 8, 32});
        run(kernels, Numbers::bfloat16, {1, 8, 32});
    }
#if defined(__x86_64__)
    if (supported(Isa::avx512vnni) && !supported(Isa::avxvnni) && asked("avxvnni")) {
        std::printf("the next with AVX-512 VNNI at 256 bits instead\n");
        run(emulated_avxvnni_kernels, Numbers::int8, row_counts);
        run(emulated_avxvnni_kernels, Numbers::int4, row_counts);
    }
#endif
    return 0;
}
