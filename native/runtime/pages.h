// Keys and values of the decoder's self-attention: pages from a recycled pool, one store per sentence.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/buffer.h"

namespace uwaga {

constexpr int64_t page_entries = 16;

struct Page {
    uint8_t* data = nullptr;
    int64_t size = 0;
};

// Pieces of memory of one size at least. What is given back is kept for the next sentence: the first touch of fresh
// memory costs more than what is written to it. Pieces that are not small are cut from huge pages.
class PagePool {
  public:
    void configure(int64_t bytes) { bytes_ = rounded(bytes, alignment); }
    Page take(int64_t bytes = 0);
    void give(Page page);
    void give(std::vector<Page>& pages);

  private:
    void add(int64_t bytes);

    std::mutex mutex_;
    std::vector<Buffer<uint8_t>> slabs_;  // what all pages lie in
    std::vector<Page> free_;
    int64_t bytes_ = 0;
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
