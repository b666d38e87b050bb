// Tests of the pages of keys and values: `make -C native/tests pages`.
#include "runtime/pages.h"
#include "require.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace uwaga;

namespace {

constexpr int64_t page = 1 << 18, slab = 1 << 21;  // eight pages per slab
constexpr int64_t period = PagePool::period_bytes / page;

// Take `count` pages at once, then return them.
void use(PagePool& pool, int64_t count) {
    std::vector<Page> pages;
    for (int64_t i = 0; i < count; ++i) {
        pages.push_back(pool.take());
        std::memset(pages.back().data, 1, page);
    }
    pool.release(pages);
}

void test_recurring_peak_is_retained() {
    PagePool pool;
    pool.configure(page, slab);
    for (int64_t i = 0; i < 20 * period / 64; ++i) {
        use(pool, 64);
        REQUIRE(pool.held_bytes() >= 6 * slab);
        use(pool, 3);
        REQUIRE(pool.held_bytes() >= 6 * slab);
    }
    REQUIRE(pool.held_bytes() == 6 * slab);  // three quarters of eight
}

void test_single_peak_is_released() {
    PagePool pool;
    pool.configure(page, slab);
    use(pool, 500);
    REQUIRE(pool.held_bytes() == 63 * slab);
    for (int64_t i = 0; i < 3 * period / 64; ++i) use(pool, 64);
    use(pool, 500);
    REQUIRE(pool.held_bytes() == 6 * slab);
}

void test_minimum_is_retained() {
    PagePool pool;
    pool.configure(page, 2 * slab);
    use(pool, 500);
    for (int64_t i = 0; i < 2 * period; ++i) use(pool, 1);
    use(pool, 500);
    REQUIRE(pool.held_bytes() == 2 * slab);
}

void test_slab_with_used_page_is_retained() {
    PagePool pool;
    pool.configure(page, 0);
    for (int64_t i = 0; i < 3 * period; ++i) use(pool, 1);
    std::vector<Page> pages;
    for (int i = 0; i < 16; ++i) pages.push_back(pool.take());
    const Page last = pages.back();
    pages.pop_back();
    std::memset(last.data, 7, page);
    pool.release(pages);
    REQUIRE(pool.held_bytes() == slab);
    for (int64_t i = 0; i < page; ++i) REQUIRE(last.data[i] == 7);
    pool.release(last);
    REQUIRE(pool.held_bytes() == 0);
}

void test_larger_pages_have_separate_slabs() {
    PagePool pool;
    pool.configure(1000, 0);
    const Page large = pool.take(3 * slab), small = pool.take();
    REQUIRE(large.slab != small.slab);
    std::memset(large.data, 1, 3 * slab);
    std::memset(small.data, 2, 1000);
    REQUIRE(large.data[3 * slab - 1] == 1);
    pool.release(large);
    pool.release(small);
    REQUIRE(pool.take(2 * slab).data == large.data);
}

void test_small_requests_take_small_pieces() {
    PagePool pool;
    pool.configure(page / 4, 0);
    pool.release(pool.take(slab / 2));
    std::vector<Page> pages;
    for (int i = 0; i < 32; ++i) pages.push_back(pool.take(page / 4));
    REQUIRE(pool.held_bytes() == 2 * slab);  // one of halves, one of base pieces
    for (const Page& taken_page : pages)
        REQUIRE(taken_page.slab == pages[0].slab && taken_page.slab->piece == page / 4);
    const Page half = pool.take(slab / 2 - 1), lent = pool.take(slab / 4 + 1);
    REQUIRE(half.slab == lent.slab && pool.held_bytes() == 2 * slab);
    REQUIRE(pool.take(slab / 8 + 1).slab->piece == slab / 4);
}

int64_t resident() {
    long long size = 0, pages = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (!file) return -1;
    const int read = std::fscanf(file, "%lld %lld", &size, &pages);
    std::fclose(file);
    return read == 2 ? pages * 4096 : -1;
}

// Even if small allocations lie above it, and whichever thread allocated it.
void test_released_memory_is_not_resident() {
    const int64_t before = resident();
    if (before < 0 || !UWAGA_MAPS_BUFFERS) return;
    std::vector<void*> between;
    std::thread([&] {
        std::vector<Buffer<uint8_t>> pages;
        for (int i = 0; i < 1000; ++i) {
            pages.emplace_back(1 << 17);
            std::memset(pages.back().get(), 1, 1 << 17);
            between.push_back(std::malloc(100));
        }
        REQUIRE(resident() > before + (100 << 20));
    }).join();
    REQUIRE(resident() < before + (10 << 20));
    for (void* block : between) std::free(block);
}

void test_buffer_grows_by_half_at_least() {
    Buffer<int32_t> buffer(1000);
    buffer.ensure(1001);
    REQUIRE(buffer.size() == 1500);
    int32_t* const data = buffer.get();
    REQUIRE(buffer.ensure(1500) == data);
    REQUIRE(buffer.ensure(5000) != nullptr && buffer.size() == 5000);
}

void test_entries_do_not_overlap_or_move() {
    constexpr int64_t width = 6;
    PagePool pool;
    pool.configure(page_entries * width * static_cast<int64_t>(sizeof(float)), 0);
    KeyValueStore store(pool, width, sizeof(float));
    std::vector<int64_t> offsets(100);
    store.take(30, offsets.data(), 1);
    store.take(70, offsets.data() + 30, 1);
    const auto entry_at = [&](int64_t offset) { return reinterpret_cast<float*>(store.base()) + offset; };
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        for (int64_t j = 0; j < width; ++j) entry_at(offsets[i])[j] = static_cast<float>(i);
    }
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        for (int64_t j = 0; j < width; ++j) REQUIRE(entry_at(offsets[i])[j] == static_cast<float>(i));
    }
}

}  // namespace

int main() {
    test_recurring_peak_is_retained();
    test_single_peak_is_released();
    test_minimum_is_retained();
    test_slab_with_used_page_is_retained();
    test_larger_pages_have_separate_slabs();
    test_small_requests_take_small_pieces();
    test_released_memory_is_not_resident();
    test_buffer_grows_by_half_at_least();
    test_entries_do_not_overlap_or_move();
    std::printf("pages: passed\n");
}
