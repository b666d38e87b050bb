// Memory that is aligned for the kernels, grows and is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace uwaga {

constexpr std::size_t alignment = 64;

inline int64_t rounded(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// Room for `count` values; what it held is lost when it has to grow. Not initialised.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(int64_t count) { ensure(count); }
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        if (this != &other) {
            std::swap(data_, other.data_);
            std::swap(size_, other.size_);
        }
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { std::free(data_); }

    T* ensure(int64_t count) {
        if (count > size_) {
            std::free(data_);
            size_ = 0;
            const std::size_t bytes = static_cast<std::size_t>(rounded(count * static_cast<int64_t>(sizeof(T)), alignment));
            data_ = static_cast<T*>(std::aligned_alloc(alignment, bytes));
            if (!data_) throw std::bad_alloc();
            size_ = count;
        }
        return data_;
    }
    T* get() { return data_; }
    const T* get() const { return data_; }
    int64_t size() const { return size_; }

  private:
    T* data_ = nullptr;
    int64_t size_ = 0;
};

}  // namespace uwaga
