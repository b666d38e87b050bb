#include "storage.h"

namespace uwaga {

Buffer<uint8_t> PagePool::take() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            Buffer<uint8_t> page = std::move(free_.back());
            free_.pop_back();
            return page;
        }
    }
    return Buffer<uint8_t>(bytes_);
}

void PagePool::give(std::vector<Buffer<uint8_t>>& pages) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Buffer<uint8_t>& page : pages) free_.push_back(std::move(page));
    pages.clear();
}

void Store::take(int64_t count, int64_t* where, int64_t where_stride) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = 0; i < count; ++i) {
        if (used_ == page_entries) {
            pages_.push_back(pool_.take());
            if (pages_.size() == 1) base_ = pages_[0].get();
            used_ = 0;
        }
        // Pages are separate allocations: the distance is taken between addresses, not pointers.
        const int64_t bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pages_.back().get()) - reinterpret_cast<uintptr_t>(base_));
        where[i * where_stride] = bytes / element_ + used_ * entry_;
        ++used_;
    }
}

}  // namespace uwaga
