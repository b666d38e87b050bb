// Memory that is aligned for the kernels, grows and is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace uwaga {

constexpr std::size_t alignment = 64;

inline int64_t rounded(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

constexpr int64_t huge_page = int64_t{1} << 21;

// Aligned memory for free() to give back. From 2 MB on it is made of whole huge pages where the system has them: the
// processor then needs few of its table entries for what a step reads and writes.
inline void* allocate_bytes(int64_t bytes) {
    const bool huge = bytes >= huge_page;
    const std::size_t unit = huge ? static_cast<std::size_t>(huge_page) : alignment;
    const std::size_t size = static_cast<std::size_t>(rounded(bytes, static_cast<int64_t>(unit)));
    void* data = std::aligned_alloc(unit, size);
    if (!data) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (huge) madvise(data, size, MADV_HUGEPAGE);  // a wish: without it all works as well, only slower
#endif
    return data;
}

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
            data_ = nullptr;
            data_ = static_cast<T*>(allocate_bytes(count * static_cast<int64_t>(sizeof(T))));
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
