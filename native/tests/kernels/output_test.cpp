// The output layer: the best candidates and the log-sum-exp against repeated search.
#include "packed.h"
#include "tests.h"

namespace uwaga {

namespace {

struct OutputRequest {
    std::vector<OutputRow> rows;
    std::vector<std::vector<Candidate>> best;
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<int32_t>> banned;
};

bool contains(const std::vector<int32_t>& rising, int32_t token) {
    for (const int32_t b : rising) {
        if (b == token) return true;
    }
    return false;
}

// Counts and banned tokens depend on the row's number only.
void prepare(OutputRequest& request, int64_t first, int64_t rows, int64_t outputs, bool logits) {
    request.rows.assign(static_cast<size_t>(rows), OutputRow{});
    request.best.assign(static_cast<size_t>(rows), {});
    request.logits.assign(static_cast<size_t>(rows), {});
    request.banned.assign(static_cast<size_t>(rows), {});
    for (int64_t r = 0; r < rows; ++r) {
        const size_t i = static_cast<size_t>(r);
        OutputRow& row = request.rows[i];
        const int64_t index = first + r;
        row.count = static_cast<int32_t>(index % 7 == 6   ? outputs
                                         : index % 7 == 5 ? (outputs < 90 ? outputs : 90)
                                         : index % 7 == 4 ? 0
                                                          : 1 + index % 9);
        request.best[i].resize(static_cast<size_t>(row.count) + 1, Candidate{123.0f, 456});
        row.best = request.best[i].data();
        if (logits && index % 2) {
            request.logits[i].resize(static_cast<size_t>(outputs) + 1, 77.0f);
            row.logits = request.logits[i].data();
        }
        for (int32_t token = static_cast<int32_t>(index % 5); token < outputs && index % 3;
             token += 1 + static_cast<int32_t>(index % 4))
            request.banned[i].push_back(token);
        row.banned = request.banned[i].data();
        row.banned_count = static_cast<int32_t>(request.banned[i].size());
    }
}

void check_output(const OutputRequest& request, int64_t r, const float* logits, int64_t outputs) {
    const size_t i = static_cast<size_t>(r);
    const OutputRow& row = request.rows[i];
    double top = -1e300, sum = 0;
    for (int64_t n = 0; n < outputs; ++n) top = std::fmax(top, logits[n]);
    for (int64_t n = 0; n < outputs; ++n) sum += std::exp(logits[n] - top);
    const double should = top + std::log(sum), is = row.maximum + std::log(row.sum);
    CHECK(std::fabs(is - should) < 1e-5 + 1e-6 * std::fabs(should), "log-sum-exp %.9g for %.9g", is, should);
    std::vector<bool> selected(static_cast<size_t>(outputs));
    for (int32_t c = 0; c < row.count; ++c) {  // selection by repeated search
        int64_t best = -1;
        for (int64_t n = 0; n < outputs; ++n) {
            if (!selected[static_cast<size_t>(n)] && !contains(request.banned[i], static_cast<int32_t>(n)) &&
                (best < 0 || logits[n] > logits[best]))
                best = n;
        }
        const Candidate& candidate = request.best[i][static_cast<size_t>(c)];
        CHECK(candidate.token == best, "candidate %d of %d is %d, should be %lld", c, row.count,
              candidate.token, static_cast<long long>(best));
        if (best < 0) {
            CHECK(candidate.logit == -std::numeric_limits<float>::infinity(), "an empty place");
            continue;
        }
        CHECK(candidate.logit == logits[best], "logit of candidate %d", c);
        selected[static_cast<size_t>(best)] = true;
    }
    CHECK(request.best[i][static_cast<size_t>(row.count)].token == 456, "written beyond the candidates");
    if (row.logits) {
        CHECK(same_bits(row.logits, logits, outputs), "logits on request");
        CHECK(row.logits[outputs] == 77.0f, "written beyond the logits");
    }
}

bool same_answer(const OutputRequest& a, size_t i, const OutputRequest& b, size_t j) {
    const OutputRow &x = a.rows[i], &y = b.rows[j];
    if (x.count != y.count || !same_bits(&x.maximum, &y.maximum, 1) || !same_bits(&x.sum, &y.sum, 1))
        return false;
    for (int32_t c = 0; c < x.count; ++c) {
        if (x.best[c].token != y.best[c].token || !same_bits(&x.best[c].logit, &y.best[c].logit, 1))
            return false;
    }
    return true;
}

}  // namespace

void test_output(const Kernels& kernels, Kind kind) {
    Random random(7);
    const int64_t sizes[][2] = {{1, 8}, {31, 40}, {64, 64}, {300, 96}, {1001, 33}};
    for (const auto& size : sizes) {
        const int64_t outputs = size[0], inputs = size[1], max_rows = 66;
        Floats w = normals(random, outputs * inputs), x = normals(random, max_rows * inputs),
               bias = normals(random, outputs);
        for (int64_t n = 0; n + 7 < outputs; n += 11) {  // ties: equal rows of weights and equal biases
            std::memcpy(&w[(n + 7) * inputs], &w[n * inputs], static_cast<size_t>(inputs) * 4);
            bias[n + 7] = bias[n];
        }
        if (outputs > 200)
            bias[123] = -std::numeric_limits<float>::infinity();  // a token that is never chosen
        const PackedInt8 int8(w.get(), outputs, inputs, 127);
        const PackedFloats floats(w.get(), outputs, inputs);
        const PackedBfloat16 bfloat16s(w.get(), outputs, inputs);
        const Quantised q(kernels, x.get(), max_rows, inputs, inputs);
        const auto output = [&](int64_t first, int64_t rows, const LogitEpilogue& b, OutputRow* out) {
            if (kind == Kind::int8) kernels.int8_output(q.rows(first), rows, int8.matrix(), b, out);
            else if (kind == Kind::float32)
                kernels.float_output(x.get() + first * inputs, rows, inputs, floats.matrix(), b, out);
            else kernels.bfloat16_output(x.get() + first * inputs, rows, inputs, bfloat16s.matrix(), b, out);
        };
        for (const auto& [biased, cap] : {std::pair(false, 0.0f), {true, 0.0f}, {true, 9.0f}}) {
            const float* b = biased ? bias.get() : nullptr;
            if (cap != 0.0f && outputs > 200) bias[123] = -40.0f;
            Floats logits(max_rows * outputs);
            Epilogue e;
            e.bias = b;
            if (kind == Kind::int8)
                kernels.int8_product(q.rows(), max_rows, int8.matrix(), e, logits.get(), outputs);
            else if (kind == Kind::float32)
                kernels.float_product(x.get(), max_rows, inputs, floats.matrix(), e, logits.get(), outputs);
            else
                kernels.bfloat16_product(x.get(), max_rows, inputs, bfloat16s.matrix(), e, logits.get(),
                                         outputs);
            OutputRequest all;
            prepare(all, 0, max_rows, outputs, true);
            output(0, max_rows, {b, cap}, all.rows.data());
            if (cap != 0.0f) {
                Floats capped(max_rows * outputs);
                std::vector<OutputRow> rows(static_cast<size_t>(max_rows));
                for (int64_t r = 0; r < max_rows; ++r)
                    rows[static_cast<size_t>(r)].count = 0,
                    rows[static_cast<size_t>(r)].logits = capped.get() + r * outputs;
                output(0, max_rows, {b, cap}, rows.data());
                for (int64_t i = 0; i < max_rows * outputs; ++i)
                    CHECK(std::fabs(capped[i] - cap * std::tanh(logits[i] / cap)) < 1e-5f, "capped logit %g",
                          static_cast<double>(capped[i]));
                std::memcpy(logits.get(), capped.get(),
                            static_cast<size_t>(max_rows * outputs) * sizeof(float));
            }
            for (int64_t r = 0; r < max_rows; ++r) check_output(all, r, logits.get() + r * outputs, outputs);
            for (const int64_t rows : {1, 2, 3, 5, 8, 13, 33}) {
                const int64_t first = random.below(max_rows - rows + 1);
                OutputRequest part;
                prepare(part, first, rows, outputs, false);
                output(first, rows, {b, cap}, part.rows.data());
                for (int64_t r = 0; r < rows; ++r) {
                    CHECK(same_answer(part, static_cast<size_t>(r), all, static_cast<size_t>(first + r)),
                          "row %lld among %lld", static_cast<long long>(first + r),
                          static_cast<long long>(rows));
                }
            }
        }
    }
}

void test_output_terms(const Kernels& kernels) {  // rows that are the sum of two quantised rows
    Random random(10);
    const int64_t sizes[][2] = {{70, 40}, {300, 96}, {65, 2048}};
    for (const auto& size : sizes) {
        const int64_t outputs = size[0], inputs = size[1], max_rows = 150;
        Floats w = normals(random, outputs * inputs), x = normals(random, max_rows * inputs),
               bias = normals(random, outputs), terms(2 * max_rows * inputs);
        const PackedInt8 int8(w.get(), outputs, inputs, 127);
        const Quantised first(kernels, x.get(), max_rows, inputs, inputs);
        for (int64_t r = 0; r < max_rows; ++r) {
            for (int64_t k = 0; k < inputs; ++k) {
                const float value = x[r * inputs + k];
                terms[2 * r * inputs + k] = value;
                terms[(2 * r + 1) * inputs + k] = value -
                                                  first.scales[r] *
                                                      static_cast<float>(first.values[r * first.stride + k] -
                                                                         128);
            }
        }
        const Quantised q(kernels, terms.get(), 2 * max_rows, inputs, inputs);
        Floats term_logits(2 * max_rows * outputs), logits(max_rows * outputs);
        kernels.int8_product(q.rows(), 2 * max_rows, int8.matrix(), Epilogue{}, term_logits.get(), outputs);
        for (int64_t r = 0; r < max_rows; ++r) {
            for (int64_t n = 0; n < outputs; ++n) {
                logits[r * outputs + n] = (term_logits[2 * r * outputs + n] +
                                           term_logits[(2 * r + 1) * outputs + n]) +
                                          bias[n];
                double exact = bias[n], length = 0;
                for (int64_t k = 0; k < inputs; ++k) {
                    const double product = static_cast<double>(x[r * inputs + k]) * int8.scales[n] *
                                           static_cast<double>(int8.value(n, k));
                    exact += product;
                    length += std::fabs(product);
                }
                CHECK(std::fabs(logits[r * outputs + n] - exact) < 4e-5 * length, "two terms: %.9g for %.9g",
                      static_cast<double>(logits[r * outputs + n]), exact);
            }
        }
        for (const int64_t rows : {1, 2, 3, 5, 8, 33, 65, 150}) {
            const int64_t first_row = random.below(max_rows - rows + 1);
            QuantisedRows part = q.rows(2 * first_row);
            part.terms = 2;
            OutputRequest request;
            prepare(request, first_row, rows, outputs, true);
            kernels.int8_output(part, rows, int8.matrix(), {bias.get()}, request.rows.data());
            for (int64_t r = 0; r < rows; ++r)
                check_output(request, r, logits.get() + (first_row + r) * outputs, outputs);
        }
    }
}

void test_output_not_finite(const Kernels& kernels) {
    Random random(8);
    Floats w = normals(random, 100 * 32), x = normals(random, 2 * 32), bias(100, 0.0f);
    const PackedFloats floats(w.get(), 100, 32);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        bias[50] = bad;
        OutputRequest request;
        prepare(request, 0, 2, 100, false);
        kernels.float_output(x.get(), 2, 32, floats.matrix(), {bias.get()}, request.rows.data());
        CHECK(std::isnan(request.rows[0].maximum + std::log(request.rows[0].sum)), "the sum tells");
        if (std::isnan(bad)) CHECK(request.best[0][0].token != 50, "a NaN is not the best");
    }
    for (int64_t k = 0; k < 32; ++k) x[k] = std::numeric_limits<float>::quiet_NaN();
    OutputRequest request;
    prepare(request, 0, 2, 100, false);
    kernels.float_output(x.get(), 2, 32, floats.matrix(), {}, request.rows.data());
    CHECK(std::isnan(request.rows[0].sum) && std::isfinite(request.rows[1].sum), "a row is spoilt alone");
    CHECK(request.best[0][0].token >= 0 && request.best[0][0].token < 100,
          "tokens stay within the vocabulary");
}

void test_many_output_rows(const Kernels& kernels) {  // more than are processed together
    Random random(9);
    const int64_t rows = 515, outputs = 70, inputs = 64;
    Floats w = normals(random, outputs * inputs), x = normals(random, rows * inputs), logits(rows * outputs);
    const PackedInt8 int8(w.get(), outputs, inputs, 127);
    const Quantised q(kernels, x.get(), rows, inputs, inputs);
    kernels.int8_product(q.rows(), rows, int8.matrix(), Epilogue{}, logits.get(), outputs);
    OutputRequest all;
    prepare(all, 0, rows, outputs, true);
    kernels.int8_output(q.rows(), rows, int8.matrix(), {}, all.rows.data());
    for (int64_t r = 0; r < rows; ++r) check_output(all, r, logits.get() + r * outputs, outputs);
}

}  // namespace uwaga
