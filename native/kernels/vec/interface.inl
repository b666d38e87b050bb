// The interface of a vector of floats: the type Vec and the functions below. All code in shared/ is written
// over it, so an instruction set with a Vec has norms, attention, float products and the output layer.
// Included after the Vec in the same unnamed namespace, so that the compiler reports a missing function or a
// wrong type.
//
// Types do not express three parts of the interface:
// - `fma` may round once or twice, `reciprocal` may be approximate: results differ between instruction sets,
//   never between rows. Sums over lanes run in an order fixed by the width, the same for each lane of
//   reduce_add_pairs.
// - max, min: the second operand if either is NaN. max_bits: NaN is the largest, so it propagates.
// - load_part and store_part access only the first n elements; n may exceed the width.
// Nothing here is from the standard library: see shared/float.inl.

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

struct VecInterface {
    static Vec a, b, c;
    static Vec (&pairs)[Vec::width / 2];
    static float* floats;
    static const float* const_floats;
    static const int32_t* integers;
    static uint16_t* halves;
    static const uint16_t* const_halves;
    static uint8_t* bytes;
    static int64_t n;

    static_assert(Vec::width == 4 || Vec::width == 8 || Vec::width == 16,
                  "it divides the 32 columns of a panel");

    // Broadcast; load and store without alignment. In load_part, lanes from n on are `fill`, or 0.
    static_assert(is_same<decltype(set(0.0f)), Vec>);
    static_assert(is_same<decltype(load(const_floats)), Vec>);
    static_assert(is_same<decltype(load_part(const_floats, n)), Vec>);
    static_assert(is_same<decltype(load_part(const_floats, n, 0.0f)), Vec>);
    static_assert(is_same<decltype(store(floats, a)), void>);
    static_assert(is_same<decltype(store_part(floats, a, n)), void>);

    // Lane by lane. fma: a * b + c. copy_sign: a, which must not be negative, with the sign of b.
    static_assert(is_same<decltype(a + b), Vec> && is_same<decltype(a - b), Vec>);
    static_assert(is_same<decltype(a * b), Vec> && is_same<decltype(a / b), Vec>);
    static_assert(is_same<decltype(reciprocal(a)), Vec>);
    static_assert(is_same<decltype(fma(a, b, c)), Vec>);
    static_assert(is_same<decltype(max(a, b)), Vec> && is_same<decltype(min(a, b)), Vec>);
    static_assert(is_same<decltype(abs(a)), Vec> && is_same<decltype(copy_sign(a, b)), Vec>);
    static_assert(is_same<decltype(max_bits(a, b)), Vec>);  // operands must not be negative

    // Bit i of the mask: a > b in lane i. zero_where_less(value, x, limit): 0 where x < limit, otherwise
    // value.
    static_assert(is_same<decltype(greater_mask(a, b)), uint32_t> &&
                  is_same<decltype(any_greater(a, b)), bool>);
    static_assert(is_same<decltype(zero_where_less(a, b, c)), Vec>);

    // The Hadamard transform of the lanes, in stages of distance 1, 2, 4 and so on: each pair (a, b) becomes
    // (a + b, a - b).
    static_assert(is_same<decltype(hadamard(a)), Vec>);

    // Over all lanes. add_pair: partial sums of two vectors. Lanes 2i and 2i + 1 of reduce_add_pairs(v),
    // where v[i] is add_pair(a, b), are reduce_add(a) and reduce_add(b).
    static_assert(is_same<decltype(reduce_add(a)), float> && is_same<decltype(reduce_max(a)), float>);
    static_assert(is_same<decltype(add_pair(a, b)), Vec> && is_same<decltype(reduce_add_pairs(pairs)), Vec>);

    // For exponentials. round_nearest: ties to even. times_power_of_two(a, n): a * 2^n for integers n in
    // [-127, 127]. fraction: a - floor(a), 0 for -inf. times_power_of_two_floor(a, n): a * 2^floor(n) for n
    // <= 0 or NaN.
    static_assert(is_same<decltype(round_nearest(a)), Vec> &&
                  is_same<decltype(times_power_of_two(a, b)), Vec>);
    static_assert(is_same<decltype(fraction(a)), Vec> &&
                  is_same<decltype(times_power_of_two_floor(a, b)), Vec>);

    // Other number formats. bfloat16: 2 * width numbers, split into even and odd ones. float16: rounds to
    // nearest even and saturates at +-65504; keeps NaN. store_quantised: round(a) + 128, for a in [-127,
    // 127].
    static_assert(is_same<decltype(from_int(integers)), Vec>);
    static_assert(is_same<decltype(load_bfloat16_pairs(const_halves, a, b)), void>);
    static_assert(is_same<decltype(load_float16(const_halves)), Vec>);
    static_assert(is_same<decltype(load_float16_part(const_halves, n)), Vec>);
    static_assert(is_same<decltype(store_float16(halves, a)), void>);
    static_assert(is_same<decltype(store_quantised(bytes, a)), void>);
};
