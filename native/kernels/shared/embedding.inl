// Rows of the embedding table, read from packed weights. Included inside an unnamed namespace.

void int8_embed(const Int8Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y,
                int64_t y_stride) {
    const int64_t inputs = padded_inputs(w.inputs);
    for (int64_t row = 0; row < rows; ++row, y += y_stride) {
        const int64_t token = tokens[row];
        const int8_t* from = w.panels + token / panel * panel * inputs + token % panel * 4;
        const float factor = scale * w.scales[token];
        for (int64_t k = 0; k < w.inputs; ++k)
            y[k] = factor * static_cast<float>(from[k / 4 * 4 * panel + k % 4]);
    }
}
void int4_embed(const Int4Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y,
                int64_t y_stride) {
    const int64_t groups = padded_inputs(w.inputs) / int4_inputs;
    for (int64_t row = 0; row < rows; ++row, y += y_stride) {
        const int64_t token = tokens[row], column = token % panel;
        const uint8_t* from = w.panels + token / panel * groups * int4_group;
        const float factor = scale * w.scales[token];
        for (int64_t k = 0; k < w.inputs; ++k) {
            const uint8_t* group = from + k / int4_inputs * int4_group;
            const uint8_t packed = group[2 * panel + k % int4_inputs / 8 * 4 * panel + 4 * column + k % 4];
            const int q = k % 8 < 4 ? packed & 15 : packed >> 4;
            const int8_t step = static_cast<int8_t>(group[2 * column]),
                         middle = static_cast<int8_t>(group[2 * column + 1]);
            y[k] = factor * static_cast<float>(step * (q - 8) + middle);
        }
    }
}
void float_embed(const FloatMatrix& w, const int32_t* tokens, int64_t rows, float scale, float* y,
                 int64_t y_stride) {
    for (int64_t row = 0; row < rows; ++row, y += y_stride) {
        const int64_t token = tokens[row];
        const float* from = w.panels + token / panel * panel_size(w) + token % panel;
        for (int64_t k = 0; k < w.inputs; ++k) y[k] = scale * from[k * panel];
    }
}
inline float float_of_bfloat16(uint16_t h) {
    const uint32_t bits = static_cast<uint32_t>(h) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

void bfloat16_embed(const Bfloat16Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y,
                    int64_t y_stride) {
    for (int64_t row = 0; row < rows; ++row, y += y_stride) {
        const int64_t token = tokens[row];
        const uint16_t* from = w.panels + token / panel * panel_size(w) + token % panel * 2;
        for (int64_t k = 0; k < w.inputs; ++k)
            y[k] = scale * float_of_bfloat16(from[k / 2 * 2 * panel + k % 2]);
    }
}
