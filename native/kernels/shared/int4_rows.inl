// The rows of an Int4Block: x = u8 - 128, from -127 to 127, and the sums of each group of inputs. A group's
// sum of x * q starts from -8 times the sum of x; it is then that of x * (q - 8) and fits in 16 bits: |.| <=
// 32 * 127 * 8. The middle is multiplied by the sum of x. Included inside an unnamed namespace.
struct SignedRows {
    static constexpr int64_t max_rows = 4, max_inputs = 16384;
    alignas(64) int8_t values[max_rows * max_inputs];
    int32_t starts[max_rows * max_inputs / int4_inputs];  // -8 times the sum
    int32_t sums[max_rows * max_inputs / int4_inputs];    // the sum, times 2^16
    int64_t inputs = 0;

    void fill(const QuantisedRows& x, int64_t rows, int64_t padded) {
        inputs = padded;
        const int64_t groups = inputs / int4_inputs;
        for (int64_t r = 0; r < rows; ++r) {
            const uint8_t* from = x.values + r * x.stride;
            for (int64_t k = 0; k < inputs; ++k) values[r * inputs + k] = static_cast<int8_t>(from[k] ^ 128);
            for (int64_t g = 0; g < groups; ++g) {
                int32_t sum = -128 * int4_inputs;
                for (int64_t k = 0; k < int4_inputs; ++k) sum += from[g * int4_inputs + k];
                starts[r * groups + g] = -8 * sum;
                sums[r * groups + g] = 65536 * sum;
            }
        }
    }
    const int8_t* row(int64_t r) const { return values + r * inputs; }
    const int32_t* row_starts(int64_t r) const { return starts + r * (inputs / int4_inputs); }
    const int32_t* row_sums(int64_t r) const { return sums + r * (inputs / int4_inputs); }
};
