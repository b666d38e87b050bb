// Keys and values of the decoder's self-attention: pages from a recycled pool, one store per sentence.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/buffer.h"

namespace uwaga {

constexpr int64_t page_entries = 16;

struct Slab {
    Buffer<uint8_t> memory;
    std::vector<uint8_t*> free;  // its pieces that are not in use
    int64_t piece = 0, count = 0;
};

struct Page {
    uint8_t* data = nullptr;
    Slab* slab = nullptr;
};

// Pieces of memory of one size, or of that twice, four times and so on. What is given back is kept for the next
// sentence: the first touch of fresh memory costs more than what is written to it. Pieces that are not small are cut
// from huge pages. A piece may be lent where half of it would do, but none that is larger still. Kept are three
// quarters of what each of the last periods needed at once, and a little in any case: what was needed for a moment, or
// once by many callers together, goes back to the system.
class PagePool {
  public:
    static constexpr int64_t period_bytes = int64_t{1} << 28;  // given back in a period

    void configure(int64_t piece, int64_t least);  // bytes of a piece; bytes that are kept in any case
    Page take(int64_t bytes = 0);
    void give(Page page);
    void give(std::vector<Page>& pages);
    int64_t held();  // bytes, in use or kept

  private:
    int64_t size_of(int64_t bytes) const;
    Slab& add(int64_t piece);
    void put_back(Page page, std::vector<std::unique_ptr<Slab>>& surplus);
    void begin_period();

    std::mutex mutex_;
    std::vector<std::unique_ptr<Slab>> slabs_;  // the oldest first: they are used before younger ones
    int64_t piece_ = 0, least_ = 0;
    int64_t held_ = 0, used_ = 0;       // bytes of all slabs; of those of which some piece is in use
    int64_t most_ = 0, given_ = 0;      // bytes used at once, given back in this period
    std::array<int64_t, 16> needed_{};  // at once in the last periods
    std::size_t periods_ = 0;
    int64_t kept_ = std::numeric_limits<int64_t>::max();
};

// Of one sentence, all that any state that goes back to the same start has written. It only grows: entries are
// never written twice, so that a state may be stepped any number of times. A page is [layer][entry][key, value].
class KeyValueStore {
  public:
    // The pool must outlive the store: the states that hold stores hold the model too.
    KeyValueStore(PagePool& pool, int64_t entry, int64_t element) : pool_(pool), entry_(entry), element_(element) {}
    ~KeyValueStore() { pool_.give(pages_); }
    KeyValueStore(const KeyValueStore&) = delete;
    KeyValueStore& operator=(const KeyValueStore&) = delete;

    // Numbers from base() to `count` new entries of layer 0; layer l lies l * layer_stride() further on.
    void take(int64_t count, int64_t* offsets, int64_t offsets_stride);
    uint8_t* base() const { return base_; }
    int64_t layer_stride() const { return page_entries * entry_; }

  private:
    PagePool& pool_;
    int64_t entry_, element_;
    std::mutex mutex_;
    std::vector<Page> pages_;
    uint8_t* base_ = nullptr;
    int64_t used_ = page_entries;  // entries of the last page
};

}  // namespace uwaga
