// Paged memory for the decoder's self-attention keys and values: a pool of recycled pages, and one store per
// sentence.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/buffer.h"

namespace uwaga {

constexpr int64_t page_entries = 16;

struct Slab {
    Buffer<uint8_t> memory;
    std::vector<uint8_t*> free;  // pieces not in use
    int64_t piece = 0, count = 0;
};

struct Page {
    uint8_t* data = nullptr;
    Slab* slab = nullptr;
};

// Memory in pieces of a base size times a power of two. Returned pieces are kept for the next sentence: the
// first touch of fresh memory costs more than writing to it. Pieces that are not small are cut from huge
// pages. A request may get a piece of up to twice its size, never a larger one. The pool keeps three quarters
// of the smallest peak of the last periods, and always a minimum; memory needed only briefly, or once by many
// concurrent callers, returns to the system.
class PagePool {
  public:
    static constexpr int64_t period_bytes = int64_t{1} << 28;  // bytes returned to the pool in a period

    void configure(int64_t piece, int64_t min_bytes);  // bytes of a base piece; bytes always kept
    Page take(int64_t bytes = 0);
    void release(Page page);
    void release(std::vector<Page>& pages);
    int64_t held_bytes();  // bytes in use or kept

  private:
    int64_t size_of(int64_t bytes) const;
    Slab& add(int64_t piece);
    void put_back(Page page, std::vector<std::unique_ptr<Slab>>& surplus);
    void begin_period();

    std::mutex mutex_;
    std::vector<std::unique_ptr<Slab>> slabs_;  // oldest first; older slabs are used first
    int64_t piece_ = 0, min_bytes_ = 0;
    int64_t held_ = 0, used_ = 0;      // bytes of all slabs; of the slabs with a piece in use
    int64_t peak_ = 0, returned_ = 0;  // peak bytes in use, and bytes returned, in this period
    std::array<int64_t, 16> peaks_{};  // peak bytes in use of the last periods
    std::size_t periods_ = 0;
    int64_t retained_ = std::numeric_limits<int64_t>::max();
};

// The keys and values of one sentence, written by any state derived from the same start. Append-only: no
// entry is written twice, so a state can be stepped any number of times. A page is [layer][entry][key,
// value]. A store may continue another, as a prompt continues a shared prefix: the other's offsets are valid
// in it too.
class KeyValueStore {
  public:
    // The pool must outlive the store: states that hold stores also hold the model.
    KeyValueStore(PagePool& pool, int64_t entry, int64_t element,
                  std::shared_ptr<const KeyValueStore> parent = nullptr)
        : pool_(pool), entry_(entry), element_(element), parent_(std::move(parent)),
          base_(parent_ ? parent_->base_ : nullptr) {}
    ~KeyValueStore() { pool_.release(pages_); }
    KeyValueStore(const KeyValueStore&) = delete;
    KeyValueStore& operator=(const KeyValueStore&) = delete;

    // Offsets (in elements, from base()) of `count` new entries of layer 0; layer l is l * layer_stride()
    // further on.
    void take(int64_t count, int64_t* offsets, int64_t offsets_stride);
    uint8_t* base() const { return base_; }
    int64_t layer_stride() const { return page_entries * entry_; }

  private:
    PagePool& pool_;
    int64_t entry_, element_;
    std::mutex mutex_;
    std::vector<Page> pages_;
    const std::shared_ptr<const KeyValueStore> parent_;  // which holds entries, or null
    uint8_t* base_;
    int64_t used_ = page_entries;  // entries used in the last page
};

}  // namespace uwaga
