#include "runtime/pages.h"

#include <algorithm>
#include <utility>

namespace uwaga {

namespace {
constexpr int64_t min_cut = 1 << 15;  // smaller pages gain little from a huge page, and one page would take 2
                                      // MB
}

void PagePool::configure(int64_t piece, int64_t min_bytes) {
    piece_ = rounded(piece, alignment);
    min_bytes_ = min_bytes;
}

Page PagePool::take(int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t piece = size_of(bytes);
    Slab* best = nullptr;
    for (const auto& candidate : slabs_) {
        const bool has_room = !candidate->free.empty() && candidate->piece >= piece &&
                              candidate->piece <= 2 * piece;
        if (has_room && (!best || candidate->piece < best->piece)) best = candidate.get();
    }
    Slab& slab = best ? *best : add(piece);
    if (static_cast<int64_t>(slab.free.size()) == slab.count)
        peak_ = std::max(peak_, used_ += slab.piece * slab.count);
    const Page page{slab.free.back(), &slab};
    slab.free.pop_back();
    return page;
}

// A request too large for two pieces per huge page gets its own size.
int64_t PagePool::size_of(int64_t bytes) const {
    int64_t piece = piece_;
    while (piece < bytes && piece < huge_page) piece *= 2;
    return 2 * piece <= huge_page
               ? piece
               : std::max(rounded(bytes, bytes < huge_page ? huge_page / 4 : huge_page), piece_);
}

Slab& PagePool::add(int64_t piece) {
    auto slab = std::make_unique<Slab>();
    slab->piece = piece;
    slab->count = slab->piece >= min_cut && slab->piece < huge_page ? huge_page / slab->piece : 1;
    slab->memory.ensure(slab->count > 1 ? huge_page : slab->piece);
    for (int64_t i = slab->count; i-- > 0;) slab->free.push_back(slab->memory.get() + i * slab->piece);
    held_ += slab->piece * slab->count;
    slabs_.push_back(std::move(slab));
    return *slabs_.back();
}

void PagePool::release(Page page) {
    std::vector<std::unique_ptr<Slab>> surplus;  // freed after the lock is released
    const std::lock_guard<std::mutex> lock(mutex_);
    put_back(page, surplus);
}

void PagePool::release(std::vector<Page>& pages) {
    std::vector<std::unique_ptr<Slab>> surplus;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Page page : pages) put_back(page, surplus);
    pages.clear();
}

void PagePool::put_back(Page page, std::vector<std::unique_ptr<Slab>>& surplus) {
    Slab* const slab = page.slab;
    slab->free.push_back(page.data);
    returned_ += slab->piece;
    if (static_cast<int64_t>(slab->free.size()) == slab->count) {
        const int64_t bytes = slab->piece * slab->count;
        used_ -= bytes;
        if (held_ > retained_) {
            held_ -= bytes;
            const auto position = std::find_if(slabs_.begin(), slabs_.end(), [slab](const auto& candidate) {
                return candidate.get() == slab;
            });
            surplus.push_back(std::move(*position));
            slabs_.erase(position);
        }
    }
    if (returned_ >= period_bytes) begin_period();
}

void PagePool::begin_period() {
    peaks_[periods_ % peaks_.size()] = std::exchange(peak_, used_);
    const std::size_t count = std::min(++periods_, peaks_.size());
    const int64_t smallest = *std::min_element(peaks_.begin(),
                                               peaks_.begin() + static_cast<std::ptrdiff_t>(count));
    retained_ = std::max(min_bytes_, smallest / 4 * 3);
    returned_ = 0;
}

int64_t PagePool::held_bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
}

void KeyValueStore::take(int64_t count, int64_t* offsets, int64_t offsets_stride) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = 0; i < count; ++i) {
        if (used_ == page_entries) {
            pages_.push_back(pool_.take());
            if (!base_) base_ = pages_[0].data;
            used_ = 0;
        }
        // Pages are separate allocations: subtract addresses, not pointers.
        const int64_t bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pages_.back().data) -
                                                   reinterpret_cast<uintptr_t>(base_));
        offsets[i * offsets_stride] = bytes / element_ + used_ * entry_;
        ++used_;
    }
}

}  // namespace uwaga
