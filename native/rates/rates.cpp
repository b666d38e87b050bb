#include "rates/rates.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rates/peaks.h"
#include "runtime/process.h"
#include "runtime/workers.h"

namespace uwaga {

namespace {

constexpr int64_t rounds = 8;
constexpr int64_t chunk = 1 << 18;       // bytes of memory in a call
constexpr int64_t iterations = 1 << 12;  // of multiply-adds in a call
constexpr int64_t heads = 8, max_best = 8;
constexpr int filling = 0x0c;  // 12 as int8, a valid int4, and a normal number as bfloat16, float16 and
                               // float32

// Calls per second of all threads together, in the best of the rounds. `call` takes the thread and its
// iteration.
template <class Call>
double calls_per_second(int64_t threads, double seconds, const Call& call) {
    Team team(threads);
    std::vector<double> thread_rates(static_cast<std::size_t>(threads));
    double best = 0;
    bool more = true;
    const int64_t end = now() + static_cast<int64_t>(1e9 * seconds),
                  round = static_cast<int64_t>(1e9 * seconds) / rounds;
    const auto work = [&](int64_t thread) {
        int64_t iteration = 0;
        call(thread, iteration++);
        do {
            team.wait();
            const int64_t start = now();
            int64_t calls = 0, elapsed = 0;
            do {
                call(thread, iteration++);
                ++calls;
                elapsed = now() - start;
            } while (elapsed < round);
            thread_rates[static_cast<std::size_t>(thread)] = 1e9 * static_cast<double>(calls) /
                                                             static_cast<double>(std::max<int64_t>(elapsed,
                                                                                                   1));
            team.wait();
            if (thread == 0) {
                double total = 0;
                for (const double rate : thread_rates) total += rate;
                best = std::max(best, total);
                more = now() < end;
            }
            team.wait();
        } while (more);
    };
    std::vector<std::thread> helpers;
    const auto join = [&] {
        for (std::thread& helper : helpers) helper.join();
    };
    try {
        for (int64_t thread = 1; thread < threads; ++thread) {
            helpers.emplace_back([&, thread] {
                try {
                    work(thread);
                } catch (...) {  // the team was abandoned: a thread could not start
                }
            });
        }
        work(0);
    } catch (...) {
        team.abandon();
        join();
        throw;
    }
    join();
    return best;
}

// Rows of one thread, and buffers for the results of kernels.
struct ThreadRows {
    ThreadRows(const Kernels& kernels, int64_t rows, int64_t inputs, int64_t outputs)
        : stride(padded_inputs(inputs) + 64), x(rows * inputs), y(rows * std::max(inputs, outputs)),
          scales(rows), values(rows * stride), output_rows(static_cast<std::size_t>(rows)),
          best(static_cast<std::size_t>(rows * max_best)) {
        for (int64_t i = 0; i < rows * inputs; ++i) x.get()[i] = std::sin(static_cast<float>(i));
        for (std::size_t i = 0; i < output_rows.size(); ++i)
            output_rows[i].count = static_cast<int32_t>(max_best),
            output_rows[i].best = &best[static_cast<std::size_t>(max_best) * i];
        kernels.quantise(x.get(), rows, inputs, inputs, values.get(), scales.get(), stride);
    }
    QuantisedRows quantised() const { return {values.get(), scales.get(), stride}; }

    int64_t stride;
    Buffer<float> x, y, scales;
    Buffer<uint8_t> values;
    std::vector<OutputRow> output_rows;
    std::vector<Candidate> best;
};

std::vector<ThreadRows> thread_rows(int64_t threads, const Kernels& kernels, int64_t rows, int64_t inputs,
                                    int64_t outputs) {
    std::vector<ThreadRows> rows_by_thread;
    for (int64_t thread = 0; thread < threads; ++thread)
        rows_by_thread.emplace_back(kernels, rows, inputs, outputs);
    return rows_by_thread;
}

// A call of one kernel on a thread's rows and a packed matrix.
void multiply(const Kernels& kernels, Numbers numbers, bool is_output, ThreadRows& thread_rows, int64_t rows,
              const int8_t* panels, int64_t inputs, int64_t outputs, const float* scales,
              const int32_t* sums) {
    const float* const x = thread_rows.x.get();
    float* const y = thread_rows.y.get();
    OutputRow* const output_rows = thread_rows.output_rows.data();
    if (numbers == Numbers::int8) {
        const Int8Matrix w{panels, scales, sums, outputs, inputs};
        if (is_output) kernels.int8_output(thread_rows.quantised(), rows, w, {}, output_rows);
        else kernels.int8_product(thread_rows.quantised(), rows, w, Epilogue{}, y, outputs);
    } else if (numbers == Numbers::int4) {
        const Int4Matrix w{reinterpret_cast<const uint8_t*>(panels), scales, sums, outputs, inputs};
        if (is_output) kernels.int4_output(thread_rows.quantised(), rows, w, {}, output_rows);
        else kernels.int4_product(thread_rows.quantised(), rows, w, Epilogue{}, y, outputs);
    } else if (numbers == Numbers::bfloat16) {
        const Bfloat16Matrix w{reinterpret_cast<const uint16_t*>(panels), outputs, inputs};
        if (is_output) kernels.bfloat16_output(x, rows, inputs, w, {}, output_rows);
        else kernels.bfloat16_product(x, rows, inputs, w, Epilogue{}, y, outputs);
    } else {
        const FloatMatrix w{reinterpret_cast<const float*>(panels), outputs, inputs};
        if (is_output) kernels.float_output(x, rows, inputs, w, {}, output_rows);
        else kernels.float_product(x, rows, inputs, w, Epilogue{}, y, outputs);
    }
}

int64_t matrix_bytes(Numbers numbers, int64_t outputs, int64_t inputs) {
    if (numbers == Numbers::int8) return int8_panels_size(outputs, inputs);
    if (numbers == Numbers::int4) return int4_panels_size(outputs, inputs);
    return numbers == Numbers::bfloat16 ? 2 * bfloat16_panels_size(outputs, inputs)
                                        : 4 * float_panels_size(outputs, inputs);
}

}  // namespace

Rates::Rates(const Kernels& kernels, int64_t size, int64_t threads)
    : kernels_(kernels), size_(size), threads_(threads), memory_(size) {
    if (threads < 1) throw std::invalid_argument("threads: at least one");
    std::memset(memory_.get(), filling, static_cast<std::size_t>(size));
}

double Rates::read(int64_t bytes, int64_t threads, double seconds) const {
    const int64_t per_thread = std::min(bytes, size_) / threads / 256 * 256,
                  in_call = std::min(per_thread, chunk);
    if (per_thread < 1) throw std::invalid_argument("bytes: fewer than 256 for each thread");
    const int64_t calls = per_thread / in_call;
    std::vector<uint64_t> read(static_cast<std::size_t>(threads) * 8);  // 8: a line of the cache each
    const double rate = calls_per_second(threads, seconds, [&](int64_t thread, int64_t iteration) {
        read[static_cast<std::size_t>(thread) * 8] += read_bytes(kernels_.isa,
                                                                 memory_.get() + thread * per_thread +
                                                                     iteration % calls * in_call,
                                                                 in_call);
    });
    return rate * static_cast<double>(in_call);
}

double Rates::peak(Numbers numbers, double seconds) const {
    const Peak peak = numbers == Numbers::int8 || numbers == Numbers::int4 ? integer_peak(kernels_.isa)
                                                                           : float_peak(kernels_.isa);
    if (!peak.run) return 0;
    return calls_per_second(threads_, seconds, [&](int64_t, int64_t) { peak.run(iterations); }) *
           static_cast<double>(iterations * peak.operations);
}

Rate Rates::product(Numbers numbers, int64_t rows, int64_t inputs, int64_t outputs, double seconds) const {
    return with_matrices(numbers, false, rows, inputs, outputs, seconds);
}

Rate Rates::output(Numbers numbers, int64_t rows, int64_t inputs, int64_t outputs, double seconds) const {
    return with_matrices(numbers, true, rows, inputs, outputs, seconds);
}

Rate Rates::with_matrices(Numbers numbers, bool is_output, int64_t rows, int64_t inputs, int64_t outputs,
                          double seconds) const {
    const int64_t bytes = matrix_bytes(numbers, outputs, inputs), copies = size_ / rounded(bytes, alignment);
    if (copies < 1)
        throw std::invalid_argument("a matrix of " + std::to_string(bytes) +
                                    " bytes does not fit in the memory");
    Buffer<float> scales(padded_outputs(outputs));
    Buffer<int32_t> sums(padded_outputs(outputs));
    std::fill_n(scales.get(), padded_outputs(outputs), 0.001f);
    std::fill_n(sums.get(), padded_outputs(outputs), 0);
    std::vector<ThreadRows> per_thread = thread_rows(threads_, kernels_, rows, inputs, outputs);
    const double rate = calls_per_second(threads_, seconds, [&](int64_t thread, int64_t iteration) {
        const int64_t copy = (thread * copies / threads_ + iteration) % copies;
        multiply(kernels_, numbers, is_output, per_thread[static_cast<std::size_t>(thread)], rows,
                 memory_.get() + copy * rounded(bytes, alignment), inputs, outputs, scales.get(), sums.get());
    });
    return {rate * 2.0 * static_cast<double>(rows * inputs * outputs), rate * static_cast<double>(bytes)};
}

Rate Rates::quantise(int64_t rows, int64_t width, double seconds) const {
    std::vector<ThreadRows> per_thread = thread_rows(threads_, kernels_, rows, width, width);
    const double rate = calls_per_second(threads_, seconds, [&](int64_t thread, int64_t) {
        ThreadRows& row_buffers = per_thread[static_cast<std::size_t>(thread)];
        kernels_.quantise(row_buffers.x.get(), rows, width, width, row_buffers.values.get(),
                          row_buffers.scales.get(), row_buffers.stride);
    });
    return {0, rate * 4.0 * static_cast<double>(rows * width)};
}

Rate Rates::norm(int64_t rows, int64_t width, double seconds) const {
    std::vector<ThreadRows> per_thread = thread_rows(threads_, kernels_, rows, width, width);
    const double rate = calls_per_second(threads_, seconds, [&](int64_t thread, int64_t) {
        ThreadRows& row_buffers = per_thread[static_cast<std::size_t>(thread)];
        kernels_.norm(row_buffers.x.get(), rows, width, width, row_buffers.x.get(), row_buffers.x.get(),
                      1e-5f, false, row_buffers.y.get(), width);
    });
    return {0, rate * 4.0 * static_cast<double>(rows * width)};
}

Rate Rates::attention(int64_t rows, int64_t width, int64_t length, bool from_cache, double seconds) const {
    const int64_t row_elements = 2 * width * length, bytes = 2 * row_elements;  // keys and values
    const int64_t stored = from_cache ? threads_ : size_ / bytes / threads_ * threads_,
                  rows_per_thread = stored / threads_;
    if (rows_per_thread < 1 || stored * bytes > size_)
        throw std::invalid_argument("keys and values of a row do not fit in the memory");
    std::vector<ThreadRows> per_thread = thread_rows(threads_, kernels_, rows, width, width);
    std::vector<int64_t> offsets;
    for (int64_t position = 0; position < length; ++position) offsets.push_back(position * 2 * width);
    std::vector<Buffer<float>> weights;
    for (int64_t thread = 0; thread < threads_; ++thread) weights.emplace_back(heads * length);
    const uint16_t* const cache = reinterpret_cast<const uint16_t*>(memory_.get());
    const int64_t head_width = width / heads;
    CachedAttention attention;
    attention.offsets = offsets.data();
    attention.length = length;
    attention.heads = heads;
    attention.head_width = attention.head_stride = head_width;
    attention.scale = 1 / std::sqrt(static_cast<float>(head_width));
    const double rate = calls_per_second(threads_, seconds, [&](int64_t thread, int64_t iteration) {
        ThreadRows& row_buffers = per_thread[static_cast<std::size_t>(thread)];
        CachedAttention row_attention = attention;
        row_attention.weights = weights[static_cast<std::size_t>(thread)].get();
        for (int64_t row = 0; row < rows; ++row) {
            const uint16_t* const keys = cache + (thread * rows_per_thread +
                                                  (iteration * rows + row) % rows_per_thread) *
                                                     row_elements;
            row_attention.query = row_buffers.x.get() + row * width;
            row_attention.context = row_buffers.y.get() + row * width;
            row_attention.following = from_cache ? 0 : static_cast<uintptr_t>(bytes);
            kernels_.attend_float16(row_attention, keys, keys + width);
        }
    });
    return {rate * 4.0 * static_cast<double>(rows * width * length),
            rate * static_cast<double>(rows * bytes)};
}

}  // namespace uwaga
