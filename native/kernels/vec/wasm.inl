// Eight floats in two WebAssembly registers, with the operations and the order of sums of portable.inl: the
// same bits. Included inside the unnamed namespace of one file.

struct Vec {
    static constexpr int width = 8;
    v128_t low, high;
};

template <class F>
inline Vec both(F f, const Vec& a) {
    return {f(a.low), f(a.high)};
}
template <class F>
inline Vec both(F f, const Vec& a, const Vec& b) {
    return {f(a.low, b.low), f(a.high, b.high)};
}

inline Vec set(float a) { return {wasm_f32x4_splat(a), wasm_f32x4_splat(a)}; }
inline Vec load(const float* p) { return {wasm_v128_load(p), wasm_v128_load(p + 4)}; }
inline Vec load_part(const float* p, int64_t n, float fill = 0.0f) {
    float part[8];
    for (int i = 0; i < 8; ++i) part[i] = i < n ? p[i] : fill;
    return load(part);
}
inline void store(float* p, const Vec& a) {
    wasm_v128_store(p, a.low);
    wasm_v128_store(p + 4, a.high);
}
inline void store_part(float* p, const Vec& a, int64_t n) {
    float part[8];
    store(part, a);
    memcpy(p, part, static_cast<size_t>(n > 8 ? 8 : n) * sizeof(float));
}

inline Vec operator+(const Vec& a, const Vec& b) {
    return both([](v128_t x, v128_t y) { return wasm_f32x4_add(x, y); }, a, b);
}
inline Vec operator-(const Vec& a, const Vec& b) {
    return both([](v128_t x, v128_t y) { return wasm_f32x4_sub(x, y); }, a, b);
}
inline Vec operator*(const Vec& a, const Vec& b) {
    return both([](v128_t x, v128_t y) { return wasm_f32x4_mul(x, y); }, a, b);
}
inline Vec operator/(const Vec& a, const Vec& b) {
    return both([](v128_t x, v128_t y) { return wasm_f32x4_div(x, y); }, a, b);
}
inline Vec reciprocal(const Vec& a) { return set(1.0f) / a; }
inline Vec fma(const Vec& a, const Vec& b, const Vec& c) { return a * b + c; }
// The second operand where either is NaN, as on x86: pmax(y, x) is y < x ? x : y.
inline Vec max(const Vec& a, const Vec& b) {
    return both([](v128_t x, v128_t y) { return wasm_f32x4_pmax(y, x); }, a, b);
}
inline Vec min(const Vec& a, const Vec& b) {
    return both([](v128_t x, v128_t y) { return wasm_f32x4_pmin(y, x); }, a, b);
}
inline Vec abs(const Vec& a) {
    return both([](v128_t x) { return wasm_f32x4_abs(x); }, a);
}
inline Vec copy_sign(const Vec& a, const Vec& b) {
    return both([](v128_t x,
                   v128_t y) { return wasm_v128_or(x, wasm_v128_and(y, wasm_i32x4_splat(INT32_MIN))); },
                a, b);
}
inline Vec max_bits(const Vec& a, const Vec& b) {
    return both([](v128_t x, v128_t y) { return wasm_u32x4_max(x, y); }, a, b);
}
inline uint32_t greater_mask(const Vec& a, const Vec& b) {
    const uint32_t low = wasm_i32x4_bitmask(wasm_f32x4_gt(a.low, b.low)),
                   high = wasm_i32x4_bitmask(wasm_f32x4_gt(a.high, b.high));
    return low | high << 4;
}
inline bool any_greater(const Vec& a, const Vec& b) {
    return wasm_v128_any_true(wasm_v128_or(wasm_f32x4_gt(a.low, b.low), wasm_f32x4_gt(a.high, b.high)));
}
inline Vec zero_where_less(const Vec& value, const Vec& x, const Vec& limit) {
    return {wasm_v128_andnot(value.low, wasm_f32x4_lt(x.low, limit.low)),
            wasm_v128_andnot(value.high, wasm_f32x4_lt(x.high, limit.high))};
}
inline float reduce_add(const Vec& a) {
    const v128_t four = wasm_f32x4_add(a.low, a.high);
    return (wasm_f32x4_extract_lane(four, 0) + wasm_f32x4_extract_lane(four, 2)) +
           (wasm_f32x4_extract_lane(four, 1) + wasm_f32x4_extract_lane(four, 3));
}
inline Vec add_pair(const Vec& a, const Vec& b) {
    return {wasm_f32x4_add(a.low, a.high), wasm_f32x4_add(b.low, b.high)};
}
// The sums of two pairs, each in reduce_add's order: a transposition, and lanes added as there.
inline v128_t reduce_add_four(const Vec& v, const Vec& w) {
    const v128_t a = wasm_i32x4_shuffle(v.low, v.high, 0, 4, 1, 5),
                 b = wasm_i32x4_shuffle(w.low, w.high, 0, 4, 1, 5);
    const v128_t c = wasm_i32x4_shuffle(v.low, v.high, 2, 6, 3, 7),
                 d = wasm_i32x4_shuffle(w.low, w.high, 2, 6, 3, 7);
    const v128_t first = wasm_i64x2_shuffle(a, b, 0, 2), second = wasm_i64x2_shuffle(a, b, 1, 3);  // lanes 0,
                                                                                                   // lanes 1
    const v128_t third = wasm_i64x2_shuffle(c, d, 0, 2), fourth = wasm_i64x2_shuffle(c, d, 1, 3);
    return wasm_f32x4_add(wasm_f32x4_add(first, third), wasm_f32x4_add(second, fourth));
}
inline Vec reduce_add_pairs(const Vec (&v)[4]) {
    return {reduce_add_four(v[0], v[1]), reduce_add_four(v[2], v[3])};
}
inline v128_t hadamard_four(v128_t x) {
    const v128_t lower = wasm_i32x4_shuffle(x, x, 0, 0, 2, 2), upper = wasm_i32x4_shuffle(x, x, 1, 1, 3, 3);
    const v128_t y = wasm_i32x4_shuffle(wasm_f32x4_add(lower, upper), wasm_f32x4_sub(lower, upper), 0, 4, 2,
                                        6);
    const v128_t first = wasm_i64x2_shuffle(y, y, 0, 0), second = wasm_i64x2_shuffle(y, y, 1, 1);
    return wasm_i64x2_shuffle(wasm_f32x4_add(first, second), wasm_f32x4_sub(first, second), 0, 2);
}
inline Vec hadamard(const Vec& a) {
    const v128_t low = hadamard_four(a.low), high = hadamard_four(a.high);
    return {wasm_f32x4_add(low, high), wasm_f32x4_sub(low, high)};
}
inline float reduce_max(const Vec& a) {
    float lanes[8];
    store(lanes, a);
    float m = lanes[0];
    for (int i = 1; i < 8; ++i) m = lanes[i] > m ? lanes[i] : m;
    return m;
}

// Nearest integer, ties to even, for |a| < 2^22. wasm_f32x4_nearest would keep the sign of -0.
constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: a sum with it has no fraction, and the integer in
                                           // its low bits
inline Vec round_nearest(const Vec& a) { return (a + set(to_integer)) - set(to_integer); }
inline Vec times_power_of_two(const Vec& a, const Vec& n) {
    const auto power = [](v128_t x) { return wasm_i32x4_shl(wasm_i32x4_add(x, wasm_i32x4_splat(127)), 23); };
    return a * both(power, n + set(to_integer));
}
inline Vec floored(const Vec& a) {
    return both([](v128_t x) { return wasm_f32x4_floor(x); }, a);
}
inline Vec fraction(const Vec& a) {
    const Vec x = max(set(-126.0f), a);  // a NaN is the second operand: it stays
    return x - floored(x);
}
inline Vec times_power_of_two_floor(const Vec& a, const Vec& n) {
    return times_power_of_two(a, floored(max(set(-126.0f), n)));
}

inline Vec from_int(const int32_t* p) {
    return {wasm_f32x4_convert_i32x4(wasm_v128_load(p)), wasm_f32x4_convert_i32x4(wasm_v128_load(p + 4))};
}
inline void load_bfloat16_pairs(const uint16_t* p, Vec& first, Vec& second) {
    const Vec pairs = {wasm_v128_load(p), wasm_v128_load(p + 8)};
    first = both([](v128_t x) { return wasm_i32x4_shl(x, 16); }, pairs);
    second = both([](v128_t x) { return wasm_v128_and(x, wasm_u32x4_splat(0xffff0000u)); }, pairs);
}
inline v128_t float16_widened(v128_t h) {  // of 32-bit lanes
    const v128_t magnitude = wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x7fff)), 13);
    const v128_t sign = wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x8000)), 16);
    const v128_t special = wasm_i32x4_ge(magnitude, wasm_i32x4_splat(0x0f800000));  // infinity and NaN
    const v128_t number = wasm_f32x4_mul(magnitude, wasm_f32x4_splat(0x1p112f));
    return wasm_v128_or(sign, wasm_v128_bitselect(wasm_v128_or(magnitude, wasm_i32x4_splat(0x70000000)),
                                                  number, special));
}
inline Vec load_float16(const uint16_t* p) {
    return {float16_widened(wasm_u32x4_load16x4(p)), float16_widened(wasm_u32x4_load16x4(p + 4))};
}
inline Vec load_float16_part(const uint16_t* p, int64_t n) {
    uint16_t part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(part, p, static_cast<size_t>(n > 8 ? 8 : n) * 2);
    return load_float16(part);
}
inline v128_t float16_narrowed(v128_t bits) {  // to 32-bit lanes below 2^16
    const v128_t sign = wasm_v128_and(wasm_u32x4_shr(bits, 16), wasm_i32x4_splat(0x8000));
    const v128_t magnitude = wasm_v128_and(bits, wasm_i32x4_splat(0x7fffffff));
    const v128_t odd = wasm_v128_and(wasm_u32x4_shr(magnitude, 13), wasm_i32x4_splat(1));
    const v128_t rounded = wasm_i32x4_add(wasm_i32x4_add(magnitude, wasm_i32x4_splat(0xfff)), odd);
    const v128_t normal = wasm_i32x4_sub(wasm_u32x4_shr(rounded, 13), wasm_i32x4_splat(112 << 10));
    const v128_t half = wasm_f32x4_splat(0.5f);
    const v128_t small = wasm_i32x4_sub(wasm_f32x4_add(magnitude, half), half);
    v128_t result = wasm_v128_bitselect(small, normal,
                                        wasm_i32x4_lt(magnitude, wasm_i32x4_splat(0x38800000)));
    result = wasm_v128_bitselect(wasm_i32x4_splat(0x7bff), result,
                                 wasm_i32x4_ge(magnitude, wasm_i32x4_splat(0x477fe000)));
    result = wasm_v128_bitselect(wasm_i32x4_splat(0x7e00), result,
                                 wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x7f800000)));
    return wasm_v128_or(sign, result);
}
inline void store_float16(uint16_t* p, const Vec& a) {
    wasm_v128_store(p, wasm_u16x8_narrow_i32x4(float16_narrowed(a.low), float16_narrowed(a.high)));
}
inline void store_quantised(uint8_t* p, const Vec& a) {
    const auto byte = [](v128_t x) {
        return wasm_v128_xor(wasm_v128_and(x, wasm_i32x4_splat(255)), wasm_i32x4_splat(128));
    };
    const Vec bytes = both(byte, a + set(to_integer));
    const v128_t words = wasm_i16x8_narrow_i32x4(bytes.low, bytes.high);
    wasm_v128_store64_lane(p, wasm_u8x16_narrow_i16x8(words, words), 0);
}
