// Which weights are fetched while others are multiplied. Included inside an unnamed namespace.

// What a product asks for, `distance` bytes before it is read, when it has come to `byte` of its weights.
inline uintptr_t prefetch_address(const Int8Matrix& w, int64_t size, int64_t byte, uintptr_t distance) {
    const int64_t at = byte + static_cast<int64_t>(distance);
    if (at < size || !w.prefetch) return reinterpret_cast<uintptr_t>(w.panels) + static_cast<uintptr_t>(at);
    return reinterpret_cast<uintptr_t>(w.prefetch) + static_cast<uintptr_t>(at - size);
}
