// The int4 product and output layer: those of the int8 matrix with the same numbers, to the bit, for any
// shape and any number of rows; and the error of packed weights.
#include "epilogue.h"
#include "packed.h"
#include "tests.h"

namespace uwaga {

namespace {

struct Shape {
    int64_t outputs, inputs, rows;
};

// Weights whose groups differ in size, in their middle and, some, in nothing.
Floats uneven(Random& random, int64_t outputs, int64_t inputs) {
    Floats w(outputs * inputs);
    for (int64_t n = 0; n < outputs; ++n) {
        float size = 1, middle = 0;
        for (int64_t k = 0; k < inputs; ++k) {
            if (k % int4_inputs == 0) {
                size = random.below(5) ? std::fabs(random.normal()) : 0.0f;
                middle = random.below(3) ? 0.0f : 2 * random.normal();
            }
            w[n * inputs + k] = size * random.normal() + middle;
        }
    }
    return w;
}

// Fill the panels with numbers at the limits of what they may hold.
void make_extreme(PackedInt4& packed, int pattern) {
    Random random(static_cast<uint64_t>(pattern) + 70);
    const int64_t groups = packed.panels.size / int4_group;
    for (int64_t g = 0; g < groups; ++g) {
        uint8_t* group = packed.panels.get() + g * int4_group;
        for (int64_t c = 0; c < panel; ++c) {
            const int64_t step = pattern < 4 ? 16 : random.below(17), lowest = -127 + 8 * step,
                          highest = 127 - 7 * step;
            const int64_t middle = pattern % 2       ? lowest
                                   : random.below(2) ? highest
                                                     : lowest + random.below(highest - lowest + 1);
            group[2 * c] = static_cast<uint8_t>(step);
            group[2 * c + 1] = static_cast<uint8_t>(static_cast<int8_t>(middle));
        }
        for (int64_t i = 2 * panel; i < int4_group; ++i) {
            group[i] = pattern < 2 ? static_cast<uint8_t>(pattern ? 0 : 255)
                                   : static_cast<uint8_t>(random.bits());
        }
    }
    packed.unpack();
}

void check_products(const Kernels& kernels, const PackedInt4& packed, const Floats& x, int64_t rows,
                    const Operands* operands) {
    const int64_t outputs = packed.outputs, inputs = packed.inputs, stride = outputs + 3;
    const Quantised q(kernels, x.get(), rows, inputs, inputs);
    for (int64_t count = 1; count <= rows; count += count < 10 ? 1 : 29) {
        const Epilogue e = operands ? operands->epilogue(static_cast<int>(count), outputs) : Epilogue{};
        Floats is(count * stride, 77.0f), should(count * stride, 77.0f);
        kernels.int4_product(q.rows(rows - count), count, packed.matrix(), e, is.get(), stride);
        kernels.int8_product(q.rows(rows - count), count, packed.as_int8(), e, should.get(), stride);
        CHECK(same_bits(is.get(), should.get(), is.size), "%lldx%lld, %lld rows",
              static_cast<long long>(outputs), static_cast<long long>(inputs), static_cast<long long>(count));
    }
    Floats single(outputs);
    kernels.int4_product(q.rows(), 1, packed.matrix(), Epilogue{}, single.get(), outputs);
    for (int64_t n = 0; n < outputs; ++n) {
        int64_t sum = 0;
        for (int64_t k = 0; k < inputs; ++k) sum += (q.values[k] - 128) * packed.value(n, k);
        CHECK(single[n] == static_cast<float>(sum) * (q.scales[0] * packed.scales[n]),
              "output %lld against plain loops", static_cast<long long>(n));
    }
}

}  // namespace

void test_int4_packing() {
    Random random(60);
    for (const Shape s : {Shape{1, 1, 0}, {33, 65, 0}, {37, 200, 0}, {64, 512, 0}}) {
        Floats w = uneven(random, s.outputs, s.inputs);
        for (int64_t k = 0; k < s.inputs && s.outputs > 4; ++k) w[4 * s.inputs + k] = 0.0f;
        const PackedInt4 packed(w.get(), s.outputs, s.inputs);
        const PackedInt8 int8(w.get(), s.outputs, s.inputs, 127);
        for (int64_t n = 0; n < padded_outputs(s.outputs); ++n) {
            int64_t sum = 0;
            for (int64_t first = 0; first < padded_inputs(s.inputs); first += int4_inputs) {
                const int64_t step = packed.step(n, first), middle = packed.middle(n, first);
                CHECK(step >= 0 && step <= 16 && middle - 8 * step >= -127 && middle + 7 * step <= 127,
                      "step %lld, middle %lld", static_cast<long long>(step), static_cast<long long>(middle));
                double error = 0, lowest = 1e9, highest = -1e9, count = 0;
                for (int64_t k = first; k < first + int4_inputs; ++k) {
                    const int64_t number = packed.value(n, k);
                    sum += number;
                    if (n >= s.outputs || k >= s.inputs) continue;
                    const double should = w[n * s.inputs + k],
                                 off = std::fabs(static_cast<double>(number) * packed.scales[n] - should);
                    const bool inside = should >= static_cast<double>(middle - 8 * step) * packed.scales[n] &&
                                        should <= static_cast<double>(middle + 7 * step) * packed.scales[n];
                    CHECK(!inside ||
                              off <= 0.5001 * static_cast<double>(step > 0 ? step : 1) * packed.scales[n],
                          "half a step at most: %g of %g", off, should);
                    error += off * off;
                    lowest = std::fmin(lowest, should);
                    highest = std::fmax(highest, should);
                    count += 1;
                }
                // The grid that spans the group has whole steps of the output's scale, and errors of half a
                // step at most.
                const double spanning = std::fmax(1.0,
                                                  std::ceil((highest - lowest) / 15 / packed.scales[n])) *
                                        packed.scales[n];
                CHECK(!(count > 0) || packed.scales[n] == 0 ||
                          error <= count * spanning * spanning / 4 * 1.0001,
                      "group %lld of output %lld: %g", static_cast<long long>(first / int4_inputs),
                      static_cast<long long>(n), error);
            }
            CHECK(packed.sums[n] == 128 * sum, "sum of output %lld", static_cast<long long>(n));
            CHECK(packed.scales[n] == int8.scales[n], "the scale of output %lld is that of int8",
                  static_cast<long long>(n));
        }
    }
    // Weights that are numbers of a grid are kept.
    Floats grid(32 * 64);
    for (int64_t i = 0; i < grid.size; ++i)
        grid[i] = i % 64 == 0   ? 127.0f
                  : i % 64 == 1 ? -113.0f
                                : static_cast<float>(-113 + 16 * (random.below(16)));
    const PackedInt4 unpacked(grid.get(), 32, 64);
    for (int64_t n = 0; n < 32; ++n) {
        for (int64_t k = 0; k < 64; ++k)
            CHECK(static_cast<float>(unpacked.value(n, k)) == grid[n * 64 + k] || k >= 32, "%lld",
                  static_cast<long long>(unpacked.value(n, k)));
    }
}

void test_int4_product(const Kernels& kernels) {
    Random random(61);
    for (const Shape s : {Shape{1, 1, 3},
                          {32, 64, 40},
                          {33, 65, 9},
                          {100, 129, 70},
                          {257, 96, 12},
                          {70, 2047, 40},
                          {33, 4200, 70},
                          {2, 16500, 3},
                          {2, 65536, 5}}) {
        Floats w = uneven(random, s.outputs, s.inputs), x = normals(random, s.rows * s.inputs);
        for (int64_t k = 0; k < s.inputs; ++k)
            x[k] = w[k] > 0 ? 1.0f : -1.0f;  // one row and one output with the largest sum
        const Operands operands{normals(random, s.outputs), normals(random, s.rows * (s.outputs + 1)),
                                normals(random, s.rows * (s.outputs + 2))};
        check_products(kernels, PackedInt4(w.get(), s.outputs, s.inputs), x, s.rows, &operands);
    }
}

// Numbers and values at the limits of their ranges, where 16-bit sums could overflow.
void test_int4_extremes(const Kernels& kernels) {
    const int64_t outputs = 40, inputs = 640, rows = 7;
    Random random(62);
    const Floats w = normals(random, outputs * inputs);
    PackedInt4 packed(w.get(), outputs, inputs);
    for (int pattern = 0; pattern < 8; ++pattern) {
        make_extreme(packed, pattern);
        Floats x(rows * inputs);
        for (int64_t i = 0; i < x.size; ++i)
            x[i] = i < inputs ? 1.0f : i < 2 * inputs ? -1.0f : random.below(2) ? 1.0f : -1.0f;
        x[0] = -1.0f;
        check_products(kernels, packed, x, rows, nullptr);
    }
}

void test_int4_output(const Kernels& kernels) {
    Random random(63);
    const int64_t outputs = 333, inputs = 130, rows = 11;
    const Floats w = uneven(random, outputs, inputs), x = normals(random, rows * inputs),
                 bias = normals(random, outputs);
    const PackedInt4 packed(w.get(), outputs, inputs);
    const Quantised q(kernels, x.get(), rows, inputs, inputs);
    for (const int64_t count : {int64_t{1}, int64_t{4}, rows}) {
        std::vector<OutputRow> is(static_cast<size_t>(count)), should(is);
        std::vector<Candidate> best(is.size() * 6);
        Floats logits(count * outputs), expected(count * outputs);
        for (size_t r = 0; r < is.size(); ++r) {
            const int64_t index = static_cast<int64_t>(r) * outputs;
            is[r].count = should[r].count = 3;
            is[r].best = &best[6 * r], is[r].logits = logits.get() + index;
            should[r].best = &best[6 * r + 3], should[r].logits = expected.get() + index;
        }
        kernels.int4_output(q.rows(), count, packed.matrix(), {bias.get()}, is.data());
        kernels.int8_output(q.rows(), count, packed.as_int8(), {bias.get()}, should.data());
        CHECK(same_bits(logits.get(), expected.get(), logits.size), "logits of %lld rows",
              static_cast<long long>(count));
        for (size_t r = 0; r < is.size(); ++r) {
            CHECK(std::memcmp(is[r].best, should[r].best, 3 * sizeof(Candidate)) == 0, "candidates");
            CHECK(is[r].maximum == should[r].maximum && is[r].sum == should[r].sum, "log-sum-exp");
        }
    }
}

void test_int4_embed(const Kernels& kernels) {
    Random random(64);
    const int64_t outputs = 75, inputs = 71, rows = 6, stride = inputs + 2;
    const Floats w = uneven(random, outputs, inputs), is(rows * stride, 77.0f), should(rows * stride, 77.0f);
    const PackedInt4 packed(w.get(), outputs, inputs);
    const int32_t tokens[] = {0, 31, 32, 74, 5, 5};
    kernels.int4_embed(packed.matrix(), tokens, rows, 3.5f, is.get(), stride);
    kernels.int8_embed(packed.as_int8(), tokens, rows, 3.5f, should.get(), stride);
    CHECK(same_bits(is.get(), should.get(), is.size), "rows of the table");
}

void test_int4_not_finite(const Kernels& kernels) {
    Random random(65);
    Floats w = normals(random, 40 * 70), x = normals(random, 3 * 70), y(3 * 40);
    x[70 + 69] = std::numeric_limits<float>::quiet_NaN();
    w[5 * 70 + 3] = std::numeric_limits<float>::infinity();
    const PackedInt4 packed(w.get(), 40, 70);
    const Quantised q(kernels, x.get(), 3, 70, 70);
    kernels.int4_product(q.rows(), 3, packed.matrix(), Epilogue{}, y.get(), 40);
    for (int64_t n = 0; n < 40; ++n) {
        CHECK(std::isnan(y[40 + n]) && std::isfinite(y[n]) == (n != 5) &&
                  std::isfinite(y[80 + n]) == (n != 5),
              "column %lld", static_cast<long long>(n));
    }
}

}  // namespace uwaga
