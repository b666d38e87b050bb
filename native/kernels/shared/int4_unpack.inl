// unpack of shared/int4_panels.inl in plain C++. Included inside an unnamed namespace.
inline void unpack(const uint8_t* from, int64_t groups, int8_t* to) {
    for (int64_t g = 0; g < groups; ++g, from += int4_group, to += int4_inputs * panel) {
        int8_t step[4 * panel], first[4 * panel];  // of every number of four inputs; first: the number of q =
                                                   // 0
        for (int64_t c = 0; c < panel; ++c) {
            const int8_t factor = static_cast<int8_t>(from[2 * c]),
                         lowest = static_cast<int8_t>(from[2 * c + 1] - 8 * from[2 * c]);
            for (int64_t k = 0; k < 4; ++k) step[4 * c + k] = factor, first[4 * c + k] = lowest;
        }
        const uint8_t* numbers = from + 2 * panel;
        for (int64_t i = 0; i < 4; ++i, numbers += 4 * panel) {
            int8_t* lower = to + 8 * i * panel;
            for (int64_t k = 0; k < 4 * panel; ++k)
                lower[k] = static_cast<int8_t>(step[k] * (numbers[k] & 15) + first[k]);
            int8_t* upper = lower + 4 * panel;
            for (int64_t k = 0; k < 4 * panel; ++k)
                upper[k] = static_cast<int8_t>(step[k] * (numbers[k] >> 4) + first[k]);
        }
    }
}
