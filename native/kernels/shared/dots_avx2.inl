// Int8Dots of shared/listed.inl, over the instruction set's dot(sum, u8, q), which adds 32 exact products to
// the lanes of sum, four to a lane or in another order. Included inside an unnamed namespace.
struct Int8Dots {
    static constexpr int at_once = 8;

    static void run(const uint8_t* x, const int8_t* const (&weights)[at_once], int64_t inputs,
                    int32_t* sums) {
        __m256i sum[at_once];
        UWAGA_UNROLL
        for (int i = 0; i < at_once; ++i) sum[i] = _mm256_setzero_si256();
        for (int64_t k = 0; k < inputs; k += 32) {
            const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
            UWAGA_UNROLL
            for (int i = 0; i < at_once; ++i) {
                sum[i] = dot(sum[i], row,
                             _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights[i] + k)));
            }
        }
        const __m256i left = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]),
                                               _mm256_hadd_epi32(sum[2], sum[3]));
        const __m256i right = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[4], sum[5]),
                                                _mm256_hadd_epi32(sum[6], sum[7]));
        const __m256i sums_of_token = _mm256_add_epi32(_mm256_permute2x128_si256(left, right, 0x20),
                                                       _mm256_permute2x128_si256(left, right, 0x31));
        _mm256_store_si256(reinterpret_cast<__m256i*>(sums), sums_of_token);
    }
};
