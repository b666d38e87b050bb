// Int8Dots of shared/listed.inl in plain C++. Included inside an unnamed namespace.
struct Int8Dots {
    static constexpr int at_once = 4;

    static void run(const uint8_t* x, const int8_t* const (&weights)[at_once], int64_t inputs,
                    int32_t* sums) {
        for (int i = 0; i < at_once; ++i) {
            int32_t sum = 0;
            for (int64_t k = 0; k < inputs; ++k) sum += static_cast<int32_t>(x[k]) * weights[i][k];
            sums[i] = sum;
        }
    }
};
