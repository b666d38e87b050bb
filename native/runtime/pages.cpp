#include "runtime/pages.h"

#include <algorithm>

namespace uwaga {

Buffer<uint8_t> PagePool::take(int64_t bytes) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (std::size_t i = free_.size(); i-- > 0;) {
            if (free_[i].size() < bytes) continue;
            std::swap(free_[i], free_.back());
            Buffer<uint8_t> page = std::move(free_.back());
            free_.pop_back();
            return page;
        }
    }
    return Buffer<uint8_t>(std::max(bytes, bytes_));
}

void PagePool::give(Buffer<uint8_t> page) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(page));
}

void PagePool::give(std::vector<Buffer<uint8_t>>& pages) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Buffer<uint8_t>& page : pages) free_.push_back(std::move(page));
    pages.clear();
}

void KeyValueStore::take(int64_t count, int64_t* offsets, int64_t offsets_stride) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = 0; i < count; ++i) {
        if (used_ == page_entries) {
            pages_.push_back(pool_.take());
            if (pages_.size() == 1) base_ = pages_[0].get();
            used_ = 0;
        }
        // Pages are separate allocations: the distance is taken between addresses, not pointers.
        const int64_t bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pages_.back().get()) - reinterpret_cast<uintptr_t>(base_));
        offsets[i * offsets_stride] = bytes / element_ + used_ * entry_;
        ++used_;
    }
}

}  // namespace uwaga
