// Spreading of a row's numbers over all of its inputs. Included inside an unnamed namespace.
//
// Every number is a sum and product in an order that only the number of inputs determines, without fused
// operations: the same bits on every instruction set.

// Stages of the Hadamard transform of blocks of the row, of distance `lanes` and more; two at a time while
// there are.
inline void hadamard_stages(float* y, int64_t inputs, int64_t block) {
    int64_t h = lanes;
    for (; 4 * h <= block; h *= 4) {
        for (int64_t from = 0; from < inputs; from += 4 * h) {
            for (int64_t k = from; k < from + h; k += lanes) {
                const Vec a = load(y + k), b = load(y + k + h), c = load(y + k + 2 * h),
                          d = load(y + k + 3 * h);
                const Vec ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;
                store(y + k, ab + cd);
                store(y + k + h, a_b + c_d);
                store(y + k + 2 * h, ab - cd);
                store(y + k + 3 * h, a_b - c_d);
            }
        }
    }
    for (int64_t from = 0; h < block && from < inputs; from += 2 * h) {
        for (int64_t k = from; k < from + h; k += lanes) {
            const Vec a = load(y + k), b = load(y + k + h);
            store(y + k, a + b);
            store(y + k + h, a - b);
        }
    }
}

// The Hartley transform of the vectors at column k of all blocks of x, into y: two outputs, j and blocks - j,
// from the sums and differences of the inputs i and blocks - i. `fixed`: half of the blocks, or 0 for any
// number.
template <int fixed>
inline void mix_column(const float* x, const Spread& s, int64_t k, float* y) {
    const int64_t pairs = fixed ? fixed : s.blocks / 2;
    Vec sums[fixed ? fixed : Spread::max_blocks / 2], differences[fixed ? fixed : Spread::max_blocks / 2];
    const Vec first = load(x + k);
    Vec total = first;
    for (int64_t i = 0; i < pairs; ++i) {
        const Vec a = load(x + (i + 1) * s.block + k), b = load(x + (s.blocks - 1 - i) * s.block + k);
        sums[i] = a + b;
        differences[i] = a - b;
        total = total + sums[i];
    }
    store(y + k, total);
    for (int64_t j = 1; j <= pairs; ++j) {
        Vec even = first, odd = set(0.0f);
        int64_t start = 0;
        for (int64_t i = 0; i < pairs; ++i) {
            start += j;
            if (start >= s.blocks) start -= s.blocks;
            even = even + set(s.cosines[start]) * sums[i];
            odd = odd + set(s.sines[start]) * differences[i];
        }
        store(y + j * s.block + k, even + odd);
        store(y + (s.blocks - j) * s.block + k, even - odd);
    }
}

template <int fixed>
inline void mix(const float* x, const Spread& s, float* y) {
    for (int64_t k = 0; k < s.block; k += lanes) mix_column<fixed>(x, s, k, y);
}

void spread(const float* x, const Spread& s, bool inverse, float* y) {
    const int64_t inputs = s.block * s.blocks;
    float* to = s.blocks > 1 ? y + inputs : y;
    const Vec factor = set(s.factor);
    if (inverse) {
        for (int64_t k = 0; k < inputs; k += lanes) store(to + k, hadamard(load(x + k) * factor));
    } else {
        for (int64_t k = 0; k < inputs; k += lanes)
            store(to + k, hadamard(load(x + k) * (load(s.signs + k) * factor)));
    }
    hadamard_stages(to, inputs, s.block);
    if (s.blocks == 3) mix<1>(to, s, y);
    else if (s.blocks == 5) mix<2>(to, s, y);
    else if (s.blocks == 9) mix<4>(to, s, y);
    else if (s.blocks > 1) mix<0>(to, s, y);
    for (int64_t k = 0; inverse && k < inputs; k += lanes) store(y + k, load(y + k) * load(s.signs + k));
}
