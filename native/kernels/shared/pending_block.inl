// A multiplied block of rows that is finished, row by row, between the products of the next block. Included
// inside an unnamed namespace.
struct PendingBlock {
    const int32_t* sums = nullptr;
    int64_t row = 0, end = 0, first = 0, p = 0;

    template <class Finish>
    UWAGA_INLINE void finish_rows(int64_t count, Finish& finish) {
        for (; count > 0 && row < end; --count, ++row) finish(first + row, p, sums + row * panel);
    }
};
