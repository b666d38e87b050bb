// Eight floats in plain C++. Included only inside the unnamed namespace of one file per instruction set: the
// linker must not merge these functions with copies that were compiled with other flags.

struct Vec {
    static constexpr int width = 8;
    float v[8];
};

template <class F>
inline Vec each(F f) {
    Vec r;
    for (int i = 0; i < Vec::width; ++i) r.v[i] = f(i);
    return r;
}

inline float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
inline uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

inline Vec set(float a) {
    return each([&](int) { return a; });
}
inline Vec load(const float* p) {
    Vec r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}
inline Vec load_part(const float* p, int64_t n, float fill = 0.0f) {
    return each([&](int i) { return i < n ? p[i] : fill; });
}
inline void store(float* p, const Vec& a) { memcpy(p, a.v, sizeof a.v); }
inline void store_part(float* p, const Vec& a, int64_t n) {
    for (int i = 0; i < n && i < Vec::width; ++i) p[i] = a.v[i];
}

inline Vec operator+(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Vec operator-(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Vec operator*(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Vec operator/(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
}
inline Vec reciprocal(const Vec& a) { return set(1.0f) / a; }
inline Vec fma(const Vec& a, const Vec& b, const Vec& c) {  // rounds twice, but the same for every row
    return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
// The second operand if either is NaN, as on x86.
inline Vec max(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec min(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec abs(const Vec& a) {
    return each([&](int i) { return float_of(bits_of(a.v[i]) & 0x7fffffffu); });
}
inline Vec copy_sign(const Vec& a, const Vec& b) {  // a must not be negative
    return each([&](int i) { return float_of(bits_of(a.v[i]) | (bits_of(b.v[i]) & 0x80000000u)); });
}
inline Vec max_bits(const Vec& a, const Vec& b) {
    return each([&](int i) { return bits_of(a.v[i]) > bits_of(b.v[i]) ? a.v[i] : b.v[i]; });
}
inline bool any_greater(const Vec& a, const Vec& b) {
    int any = 0;
    for (int i = 0; i < Vec::width; ++i) any |= a.v[i] > b.v[i];
    return any != 0;
}
inline uint32_t greater_mask(const Vec& a, const Vec& b) {
    uint32_t mask = 0;
    for (int i = 0; i < Vec::width; ++i) mask |= (a.v[i] > b.v[i] ? 1u : 0u) << i;
    return mask;
}
inline Vec zero_where_less(const Vec& value, const Vec& x, const Vec& limit) {
    return each([&](int i) { return x.v[i] < limit.v[i] ? 0.0f : value.v[i]; });
}
inline float reduce_add(const Vec& a) {
    return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}
inline Vec add_pair(const Vec& a, const Vec& b) {
    return each([&](int i) { return i < 4 ? a.v[i] + a.v[i + 4] : b.v[i - 4] + b.v[i]; });
}
inline Vec reduce_add_pairs(const Vec (&v)[4]) {
    return each([&](int i) {
        const float* four = v[i / 2].v + i % 2 * 4;
        return (four[0] + four[2]) + (four[1] + four[3]);
    });
}
inline Vec hadamard(Vec a) {
    for (int h = 1; h < Vec::width; h *= 2) {
        a = each([&](int i) { return i & h ? a.v[i - h] - a.v[i] : a.v[i] + a.v[i + h]; });
    }
    return a;
}
inline float reduce_max(const Vec& a) {
    float m = a.v[0];
    for (int i = 1; i < Vec::width; ++i) m = a.v[i] > m ? a.v[i] : m;
    return m;
}

// Nearest integer, ties to even, for |a| < 2^22.
inline Vec round_nearest(const Vec& a) {
    return each([&](int i) { return (a.v[i] + 12582912.0f) - 12582912.0f; });
}
inline Vec times_power_of_two(const Vec& a, const Vec& n) {
    return each([&](int i) {
        const float magic = n.v[i] + 12582912.0f;  // the low bits hold n
        return a.v[i] * float_of((bits_of(magic) + 127u) << 23);
    });
}
inline Vec floored(const Vec& a) {
    return each([&](int i) { return __builtin_floorf(a.v[i]); });
}
inline Vec fraction(const Vec& a) {
    const Vec x = max(set(-126.0f), a);  // NaN is the second operand, so it propagates
    return x - floored(x);
}
inline Vec times_power_of_two_floor(const Vec& a, const Vec& n) {
    return times_power_of_two(a, floored(max(set(-126.0f), n)));
}

inline Vec from_int(const int32_t* p) {
    return each([&](int i) { return static_cast<float>(p[i]); });
}
inline void load_bfloat16_pairs(const uint16_t* p, Vec& first, Vec& second) {
    first = each([&](int i) { return float_of(static_cast<uint32_t>(p[2 * i]) << 16); });
    second = each([&](int i) { return float_of(static_cast<uint32_t>(p[2 * i + 1]) << 16); });
}
inline float float_of_float16(uint16_t h) {
    const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fffu) << 13,
                   sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    if (magnitude >= 0x0f800000u) return float_of(sign | 0x70000000u | magnitude);  // infinity and NaN
    return float_of(sign | bits_of(float_of(magnitude) * 0x1p112f));
}
inline uint16_t float16_of(float f) {
    const uint32_t bits = bits_of(f), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477fe000u) return static_cast<uint16_t>(sign | 0x7bffu);
    if (magnitude < 0x38800000u)
        return static_cast<uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
    return static_cast<uint16_t>(sign |
                                 (((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10)));
}
inline Vec load_float16(const uint16_t* p) {
    return each([&](int i) { return float_of_float16(p[i]); });
}
inline Vec load_float16_part(const uint16_t* p, int64_t n) {
    return each([&](int i) { return i < n ? float_of_float16(p[i]) : 0.0f; });
}
inline void store_float16(uint16_t* p, const Vec& a) {
    for (int i = 0; i < Vec::width; ++i) p[i] = float16_of(a.v[i]);
}

inline void store_quantised(uint8_t* p, const Vec& a) {
    for (int i = 0; i < Vec::width; ++i) {
        p[i] = static_cast<uint8_t>((bits_of(a.v[i] + 12582912.0f) & 255u) ^ 128u);
    }
}
