#include "runtime/pages.h"

#include <algorithm>

namespace uwaga {

namespace {
constexpr int64_t least_cut = 1 << 15;  // a model of smaller pages has little to gain, and would take 2 MB for one
}

Page PagePool::take(int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (;;) {
        for (std::size_t i = free_.size(); i-- > 0;) {
            if (free_[i].size < bytes) continue;
            std::swap(free_[i], free_.back());
            const Page page = free_.back();
            free_.pop_back();
            return page;
        }
        add(bytes);
    }
}

void PagePool::add(int64_t bytes) {
    const int64_t piece = std::max(rounded(bytes, alignment), bytes_);
    const int64_t count = piece >= least_cut && piece < huge_page ? huge_page / piece : 1;
    slabs_.emplace_back(count > 1 ? huge_page : piece);
    free_.reserve(free_.size() + static_cast<std::size_t>(count));
    for (int64_t i = 0; i < count; ++i) free_.push_back({slabs_.back().get() + i * piece, piece});
}

void PagePool::give(Page page) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(page);
}

void PagePool::give(std::vector<Page>& pages) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.insert(free_.end(), pages.begin(), pages.end());
    pages.clear();
}

void KeyValueStore::take(int64_t count, int64_t* offsets, int64_t offsets_stride) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = 0; i < count; ++i) {
        if (used_ == page_entries) {
            pages_.push_back(pool_.take());
            if (pages_.size() == 1) base_ = pages_[0].data;
            used_ = 0;
        }
        // Pages are separate allocations: the distance is taken between addresses, not pointers.
        const int64_t bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pages_.back().data) - reinterpret_cast<uintptr_t>(base_));
        offsets[i * offsets_stride] = bytes / element_ + used_ * entry_;
        ++used_;
    }
}

}  // namespace uwaga
