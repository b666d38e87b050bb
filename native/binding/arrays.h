// NumPy arrays in and out: helpers that all binding files need.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "runtime/buffer.h"

namespace uwaga {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<nb::numpy, const T, nb::c_contig, nb::device::cpu>;
template <class T, int N>
using Shaped = nb::ndarray<nb::numpy, const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

[[noreturn]] inline void refuse(const std::string& message) { throw std::invalid_argument(message); }

template <class T>
void check(const Array<T>& array, int64_t expected, const char* name) {
    if (static_cast<int64_t>(array.size()) != expected) {
        refuse(std::string(name) + ": " + std::to_string(array.size()) + " numbers, expected " +
               std::to_string(expected));
    }
}

// A NumPy array that owns a buffer.
template <class T>
nb::object owned(Buffer<T> values, std::initializer_list<std::size_t> shape) {
    T* const data = values.get();
    nb::capsule owner(new Buffer<T>(std::move(values)),
                      [](void* p) noexcept { delete static_cast<Buffer<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

template <class T>
Buffer<T> allocate(int64_t count) {
    return Buffer<T>(std::max<int64_t>(count, 1));
}

}  // namespace uwaga
