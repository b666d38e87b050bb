// Aligned buffers that grow on demand and are reused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

// The address sanitizer only tracks the C library's heap.
#if defined(__has_feature)
#define UWAGA_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define UWAGA_ADDRESS_SANITIZER 1
#else
#define UWAGA_ADDRESS_SANITIZER 0
#endif

#if (defined(__unix__) || defined(__APPLE__)) && !defined(__EMSCRIPTEN__) && !UWAGA_ADDRESS_SANITIZER
#define UWAGA_MAPS_BUFFERS 1
#include <sys/mman.h>
#else
#define UWAGA_MAPS_BUFFERS 0
#endif

namespace uwaga {

constexpr std::size_t alignment = 64;

inline int64_t rounded(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

constexpr int64_t huge_page = int64_t{1} << 21;

// Allocations of at least this many bytes are mapped directly. An arena of the C library cannot return memory
// below a live allocation, so a single peak of concurrent callers would stay resident.
constexpr int64_t mapped_bytes = int64_t{1} << 16;

// Freed mappings of this many bytes together are kept for the next allocations, because the system zeroes new
// ones; the others are returned to it.
constexpr int64_t max_spare_bytes = int64_t{1} << 26;

// The size actually allocated. That of mappings is one of four for each power of two, so that a freed one
// soon fits again. From 2 MB it is a multiple of the huge page size, so that a step needs fewer TLB entries
// where the system provides huge pages.
inline int64_t allocated_bytes(int64_t bytes) {
    if (bytes < mapped_bytes) return rounded(bytes, alignment);
    int64_t unit = mapped_bytes / 4;
    while (bytes > 8 * unit) unit *= 2;
    return rounded(bytes, bytes >= huge_page ? std::max(unit, huge_page) : unit);
}

#if UWAGA_MAPS_BUFFERS
inline void* map_bytes(std::size_t size) {
    const std::size_t spare = size >= static_cast<std::size_t>(huge_page)
                                  ? static_cast<std::size_t>(huge_page)
                                  : 0;
    void* const memory = mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                              0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (!spare) return memory;
    char* const first = static_cast<char*>(memory);
    const std::size_t before = (spare - reinterpret_cast<uintptr_t>(first) % spare) % spare;
    if (before) munmap(first, before);
    if (before < spare) munmap(first + before + size, spare - before);
#if defined(MADV_HUGEPAGE)
    madvise(first + before, size, MADV_HUGEPAGE);  // a hint: without huge pages everything works, only slower
#endif
    return first + before;
}

// Freed mappings by size.
class SpareMappings {
  public:
    // The most recently freed mapping of the size, or null.
    void* take(std::size_t size) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = std::find_if(spares_.rbegin(), spares_.rend(),
                                        [=](const Spare& spare) { return spare.size == size; });
        if (found == spares_.rend()) return nullptr;
        void* const memory = found->memory;
        bytes_ -= static_cast<int64_t>(size);
        spares_.erase(std::next(found).base());
        return memory;
    }
    // Keeps a mapping, and returns the oldest ones to the system if there are too many.
    void release(void* memory, std::size_t size) {
        const std::lock_guard<std::mutex> lock(mutex_);
        spares_.push_back({memory, size});
        bytes_ += static_cast<int64_t>(size);
        while (bytes_ > max_spare_bytes) {
            munmap(spares_.front().memory, spares_.front().size);
            bytes_ -= static_cast<int64_t>(spares_.front().size);
            spares_.erase(spares_.begin());
        }
    }

  private:
    struct Spare {
        void* memory;
        std::size_t size;
    };
    std::mutex mutex_;
    std::vector<Spare> spares_;
    int64_t bytes_ = 0;
};

inline SpareMappings& spare_mappings() {
    static SpareMappings& mappings = *new SpareMappings;  // outlives all buffers
    return mappings;
}
#endif

inline void* allocate_bytes(int64_t bytes) {
    const std::size_t size = static_cast<std::size_t>(allocated_bytes(bytes));
#if UWAGA_MAPS_BUFFERS
    if (bytes >= mapped_bytes) {
        void* const spare = spare_mappings().take(size);
        return spare ? spare : map_bytes(size);
    }
#endif
    return ::operator new(size, std::align_val_t{alignment});
}

inline void release_bytes(void* memory, [[maybe_unused]] int64_t bytes) {
#if UWAGA_MAPS_BUFFERS
    if (memory && bytes >= mapped_bytes) {
        spare_mappings().release(memory, static_cast<std::size_t>(allocated_bytes(bytes)));
        return;
    }
#endif
    ::operator delete(memory, std::align_val_t{alignment});
}

// Uninitialised memory for `count` values. Growing discards the contents.
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
    ~Buffer() { release(); }

    // Grows by at least half: repeated small growth leaves holes between other allocations, each too small
    // for the next.
    T* ensure(int64_t count) {
        if (count > size_) {
            count = std::max(count, size_ + size_ / 2);
            release();
            data_ = static_cast<T*>(allocate_bytes(count * value_bytes));
            size_ = count;
        }
        return data_;
    }
    T* get() { return data_; }
    const T* get() const { return data_; }
    int64_t size() const { return size_; }

  private:
    static constexpr int64_t value_bytes = static_cast<int64_t>(sizeof(T));

    void release() { release_bytes(std::exchange(data_, nullptr), std::exchange(size_, 0) * value_bytes); }

    T* data_ = nullptr;
    int64_t size_ = 0;
};

}  // namespace uwaga
