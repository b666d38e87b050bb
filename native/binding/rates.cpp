#include "binding/rates.h"

#include <cmath>

#include "binding/arrays.h"
#include "kernels/kernels.h"
#include "rates/rates.h"
#include "network/matrix.h"

namespace uwaga {

namespace {

constexpr int64_t max_threads = 1024, max_rows = 4096, max_outputs = int64_t{1} << 20,
                  max_bytes = int64_t{1} << 40;
constexpr double max_seconds = 3600;

void check_range(const char* name, int64_t value, int64_t min, int64_t max) {
    if (value < min || value > max)
        refuse(std::string(name) + ": " + std::to_string(value) + " is not from " + std::to_string(min) +
               " to " + std::to_string(max));
}

void check_seconds(double seconds) {
    if (!(seconds >= 0 && seconds <= max_seconds)) refuse("seconds: from 0 to 3600");
}

Numbers numbers_of(int numbers) {
    check_range("numbers", numbers, 0, static_cast<int64_t>(Numbers::float32));
    return static_cast<Numbers>(numbers);
}

nb::tuple pair_of(const Rate& rate) { return nb::make_tuple(rate.operations, rate.bytes); }

void make_rates(Rates* self, int isa, int64_t size, int64_t threads) {
    if (isa < 0 || isa > static_cast<int>(Isa::wasm) || !supported(static_cast<Isa>(isa)))
        refuse("isa: not of this processor or build");
    check_range("size", size, 1, max_bytes);
    check_range("threads", threads, 1, max_threads);
    const nb::gil_scoped_release released;
    new (self) Rates(kernels_of(static_cast<Isa>(isa)), size, threads);
}

double read_rate(const Rates& self, int64_t size, int64_t threads, double seconds) {
    check_range("size", size, 1, max_bytes);
    check_range("threads", threads, 1, max_threads);
    check_seconds(seconds);
    const nb::gil_scoped_release released;
    return self.read(size, threads, seconds);
}

double peak_rate(const Rates& self, int numbers, double seconds) {
    const Numbers kind = numbers_of(numbers);
    check_seconds(seconds);
    const nb::gil_scoped_release released;
    return self.peak(kind, seconds);
}

template <Rate (Rates::*measure)(Numbers, int64_t, int64_t, int64_t, double) const>
nb::tuple matrix_rate(const Rates& self, int numbers, int64_t rows, int64_t inputs, int64_t outputs,
                      double seconds) {
    const Numbers kind = numbers_of(numbers);
    check_range("rows", rows, 1, max_rows);
    check_range("inputs", inputs, 1, max_int8_inputs);
    check_range("outputs", outputs, 1, max_outputs);
    check_seconds(seconds);
    Rate rate;
    {
        const nb::gil_scoped_release released;
        rate = (self.*measure)(kind, rows, inputs, outputs, seconds);
    }
    return pair_of(rate);
}

template <Rate (Rates::*measure)(int64_t, int64_t, double) const>
nb::tuple rows_rate(const Rates& self, int64_t rows, int64_t width, double seconds) {
    check_range("rows", rows, 1, max_rows);
    check_range("width", width, 1, max_int8_inputs);
    check_seconds(seconds);
    Rate rate;
    {
        const nb::gil_scoped_release released;
        rate = (self.*measure)(rows, width, seconds);
    }
    return pair_of(rate);
}

nb::tuple attention_rate(const Rates& self, int64_t rows, int64_t width, int64_t length, double seconds) {
    check_range("rows", rows, 1, max_rows);
    check_range("width", width, 8, max_int8_inputs);
    if (width % 8 != 0) refuse("width: not a multiple of the 8 heads");
    check_range("length", length, 1, max_rows);
    check_seconds(seconds);
    Rate rate;
    {
        const nb::gil_scoped_release released;
        rate = self.attention(rows, width, length, false, seconds);
    }
    return pair_of(rate);
}

}  // namespace

void bind_rates(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Rates>(m, "Rates")
        .def("__init__", &make_rates, "isa"_a, "size"_a, "threads"_a)
        .def("read", &read_rate, "size"_a, "threads"_a, "seconds"_a)
        .def("peak", &peak_rate, "numbers"_a, "seconds"_a)
        .def("product", &matrix_rate<&Rates::product>, "numbers"_a, "rows"_a, "inputs"_a, "outputs"_a,
             "seconds"_a)
        .def("output", &matrix_rate<&Rates::output>, "numbers"_a, "rows"_a, "inputs"_a, "outputs"_a,
             "seconds"_a)
        .def("quantise", &rows_rate<&Rates::quantise>, "rows"_a, "width"_a, "seconds"_a)
        .def("norm", &rows_rate<&Rates::norm>, "rows"_a, "width"_a, "seconds"_a)
        .def("attention", &attention_rate, "rows"_a, "width"_a, "length"_a, "seconds"_a);
}

}  // namespace uwaga
