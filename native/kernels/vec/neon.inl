// Four floats in a NEON register. Included inside the unnamed namespace of one file.

struct Vec {
    static constexpr int width = 4;
    float32x4_t v;
};

inline Vec set(float a) { return {vdupq_n_f32(a)}; }
inline Vec load(const float* p) { return {vld1q_f32(p)}; }
inline Vec load_part(const float* p, int64_t n, float fill = 0.0f) {
    float part[4];
    for (int i = 0; i < 4; ++i) part[i] = i < n ? p[i] : fill;
    return load(part);
}
inline void store(float* p, Vec a) { vst1q_f32(p, a.v); }
inline void store_part(float* p, Vec a, int64_t n) {
    float part[4];
    vst1q_f32(part, a.v);
    memcpy(p, part, static_cast<size_t>(n > 4 ? 4 : n) * sizeof(float));
}

inline Vec operator+(Vec a, Vec b) { return {vaddq_f32(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {vsubq_f32(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {vmulq_f32(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {vdivq_f32(a.v, b.v)}; }
inline Vec reciprocal(Vec a) { return set(1.0f) / a; }
inline Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
// b if either is NaN, as on x86.
inline Vec max(Vec a, Vec b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
inline Vec abs(Vec a) { return {vabsq_f32(a.v)}; }
inline Vec copy_sign(Vec a, Vec b) { return {vbslq_f32(vdupq_n_u32(0x80000000u), b.v, a.v)}; }
inline Vec max_bits(Vec a, Vec b) {
    return {vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(a.v), vreinterpretq_s32_f32(b.v)))};
}
inline uint32_t greater_mask(Vec a, Vec b) {
    const uint32_t bits[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgtq_f32(a.v, b.v), vld1q_u32(bits)));
}
inline bool any_greater(Vec a, Vec b) { return vmaxvq_u32(vcgtq_f32(a.v, b.v)) != 0; }
inline Vec zero_where_less(Vec value, Vec x, Vec limit) {
    return {vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(value.v), vcltq_f32(x.v, limit.v)))};
}
inline float reduce_add(Vec a) { return vaddvq_f32(a.v); }
inline Vec add_pair(Vec a, Vec b) { return {vpaddq_f32(a.v, b.v)}; }
inline Vec reduce_add_pairs(const Vec (&v)[2]) { return {vpaddq_f32(v[0].v, v[1].v)}; }
inline Vec hadamard(Vec a) {
    const float32x4_t lower = vtrn1q_f32(a.v, a.v), upper = vtrn2q_f32(a.v, a.v);
    const float32x4_t x = vtrn1q_f32(vaddq_f32(lower, upper), vsubq_f32(lower, upper));
    const float32x4_t first = vcombine_f32(vget_low_f32(x), vget_low_f32(x)),
                      second = vcombine_f32(vget_high_f32(x), vget_high_f32(x));
    return {vcombine_f32(vget_low_f32(vaddq_f32(first, second)), vget_low_f32(vsubq_f32(first, second)))};
}
inline float reduce_max(Vec a) {
    const float32x2_t two = vmax_f32(vget_low_f32(a.v), vget_high_f32(a.v));
    const float first = vget_lane_f32(two, 0), second = vget_lane_f32(two, 1);
    return first > second ? first : second;
}

inline Vec round_nearest(Vec a) { return {vrndnq_f32(a.v)}; }
inline Vec times_power_of_two(Vec a, Vec n) {
    const int32x4_t power = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n.v), vdupq_n_s32(127)), 23);
    return {vmulq_f32(a.v, vreinterpretq_f32_s32(power))};
}
inline Vec floored(Vec a) { return {vrndmq_f32(a.v)}; }
inline Vec fraction(Vec a) {
    const Vec x = max(set(-126.0f), a);  // NaN is the second operand, so it propagates
    return x - floored(x);
}
inline Vec times_power_of_two_floor(Vec a, Vec n) {
    return times_power_of_two(a, floored(max(set(-126.0f), n)));
}

inline Vec from_int(const int32_t* p) { return {vcvtq_f32_s32(vld1q_s32(p))}; }

inline void load_bfloat16_pairs(const uint16_t* p, Vec& first, Vec& second) {
    const uint32x4_t pairs = vreinterpretq_u32_u16(vld1q_u16(p));
    first.v = vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
    second.v = vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000u)));
}
inline Vec load_float16(const uint16_t* p) { return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))}; }
inline Vec load_float16_part(const uint16_t* p, int64_t n) {
    uint16_t part[4] = {0, 0, 0, 0};
    memcpy(part, p, static_cast<size_t>(n > 4 ? 4 : n) * 2);
    return load_float16(part);
}
inline void store_float16(uint16_t* p, Vec a) {
    const Vec clamped = max(set(-65504.0f), min(set(65504.0f), a));
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(clamped.v)));
}
inline void store_quantised(uint8_t* p, Vec a) {
    const int16x4_t words = vmovn_s32(vcvtnq_s32_f32(a.v));
    const uint8x8_t bytes = veor_u8(vreinterpret_u8_s8(vmovn_s16(vcombine_s16(words, words))),
                                    vdup_n_u8(0x80));
    memcpy(p, &bytes, 4);
}
