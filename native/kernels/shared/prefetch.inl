// The panels of int8 products, and the addresses to prefetch meanwhile. Included inside an unnamed namespace.

inline const int8_t* panel_of(const Int8Matrix& w, int64_t inputs, int64_t p) {
    return w.panels + p * inputs * panel;
}

// The address to prefetch when a product is at `byte` of its weights: `distance` bytes further on.
template <class Matrix>
inline uintptr_t prefetch_address(const Matrix& w, int64_t size, int64_t byte, uintptr_t distance) {
    const int64_t position = byte + static_cast<int64_t>(distance);
    if (position < size || !w.prefetch)
        return reinterpret_cast<uintptr_t>(w.panels) + static_cast<uintptr_t>(position);
    return reinterpret_cast<uintptr_t>(w.prefetch) + static_cast<uintptr_t>(position - size);
}
