#include "binding/weights.h"

#include <algorithm>

namespace uwaga {

namespace {

void check_sizes(int64_t outputs, int64_t inputs) {
    if (outputs < 1 || inputs < 1 || outputs >= int64_t{1} << 31 || inputs >= int64_t{1} << 31)
        refuse("invalid matrix size");
}

void check_aligned(const void* data) {
    if (reinterpret_cast<uintptr_t>(data) % alignment) refuse("panels: not aligned to 64 bytes");
}

// An array of weights, not yet written.
template <class T>
struct Unwritten {
    T* data;
    nb::object array;

    Unwritten(int64_t count, const WeightArenaPtr& arena) {
        const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
        const std::size_t size = static_cast<std::size_t>(count);
        if (!arena) {
            Buffer<T> buffer = allocate<T>(count);
            data = buffer.get();
            array = owned(std::move(buffer), {size});
            return;
        }
        data = static_cast<T*>(arena->take(bytes));
        nb::capsule owner(new WeightArenaPtr(arena),
                          [](void* p) noexcept { delete static_cast<WeightArenaPtr*>(p); });
        array = nb::cast(nb::ndarray<nb::numpy, T>(data, {size}, owner));
    }
};

constexpr int64_t slab_pages = 16;  // the unused end of a slab takes no memory beyond its first page

}  // namespace

void* WeightArena::take(int64_t bytes) {
    const int64_t size = rounded(bytes, alignment);
    const auto has_room = [&](const Slab& slab) { return slab.used + size <= slab.memory.size(); };
    auto slab = std::find_if(slabs_.begin(), slabs_.end(), has_room);
    if (slab == slabs_.end())
        slab = slabs_.insert(slab, Slab{Buffer<uint8_t>(std::max(size, slab_pages * huge_page))});
    void* data = slab->memory.get() + slab->used;
    slab->used += size;
    return data;
}

nb::object unwritten_bytes(const WeightArenaPtr& arena, int64_t size) {
    if (size < 0) refuse("size: negative");
    return Unwritten<uint8_t>(size, arena).array;
}

Packed int8_matrix(int64_t outputs, int64_t inputs, int levels, Array<int8_t> panels, Array<float> scales,
                   Array<int32_t> sums, bool spread) {
    check_sizes(outputs, inputs);
    check_int8_inputs(inputs);
    if (levels < 1 || levels > 127) refuse("levels: must be from 1 to 127");
    check(panels, padded_outputs(outputs) * padded_inputs(inputs), "panels");
    check(scales, padded_outputs(outputs), "scales");
    check(sums, padded_outputs(outputs), "sums");
    check_aligned(panels.data());
    Packed packed;
    packed.matrix.kind = Matrix::Kind::int8;
    if (spread) packed.matrix.spread = spread_of(inputs);
    packed.matrix.int8 = Int8Matrix{panels.data(), scales.data(), sums.data(), outputs, inputs, levels};
    check_int8(packed.matrix.int8);
    packed.panels = nb::cast(panels);
    packed.scales = nb::cast(scales);
    packed.sums = nb::cast(sums);
    return packed;
}

Packed int4_matrix(int64_t outputs, int64_t inputs, Array<uint8_t> panels, Array<float> scales,
                   Array<int32_t> sums) {
    check_sizes(outputs, inputs);
    check_int8_inputs(inputs);
    check(panels, int4_panels_size(outputs, inputs), "panels");
    check(scales, padded_outputs(outputs), "scales");
    check(sums, padded_outputs(outputs), "sums");
    check_aligned(panels.data());
    Packed packed;
    packed.matrix.kind = Matrix::Kind::int4;
    packed.matrix.int4 = Int4Matrix{panels.data(), scales.data(), sums.data(), outputs, inputs};
    check_int4(packed.matrix.int4);
    packed.panels = nb::cast(panels);
    packed.scales = nb::cast(scales);
    packed.sums = nb::cast(sums);
    return packed;
}

Packed bfloat16_matrix(int64_t outputs, int64_t inputs, Array<uint16_t> panels) {
    check_sizes(outputs, inputs);
    check(panels, bfloat16_panels_size(outputs, inputs), "panels");
    check_aligned(panels.data());
    Packed packed;
    packed.matrix.kind = Matrix::Kind::bfloat16;
    packed.matrix.bfloat16 = Bfloat16Matrix{panels.data(), outputs, inputs};
    packed.panels = nb::cast(panels);
    return packed;
}

Packed float_matrix(int64_t outputs, int64_t inputs, Array<float> panels) {
    check_sizes(outputs, inputs);
    check(panels, float_panels_size(outputs, inputs), "panels");
    check_aligned(panels.data());
    Packed packed;
    packed.matrix.kind = Matrix::Kind::float32;
    packed.matrix.float32 = FloatMatrix{panels.data(), outputs, inputs};
    packed.panels = nb::cast(panels);
    return packed;
}

namespace {

// Allocate a matrix's panels, scales and sums, and call `fill` with the GIL released.
template <class Number, class Fill>
nb::tuple filled_quantised(int64_t outputs, int64_t inputs, int64_t (*size)(int64_t, int64_t),
                           const WeightArenaPtr& arena, const Fill& fill) {
    check_sizes(outputs, inputs);
    check_int8_inputs(inputs);
    const Unwritten<Number> panels(size(outputs, inputs), arena);
    const Unwritten<float> scales(padded_outputs(outputs), arena);
    const Unwritten<int32_t> sums(padded_outputs(outputs), arena);
    {
        const nb::gil_scoped_release free;
        fill(panels.data, scales.data, sums.data);
    }
    return nb::make_tuple(panels.array, scales.array, sums.array);
}

}  // namespace

nb::tuple packed_int8(Shaped<float, 2> w, int levels, const WeightArenaPtr& arena, bool spread) {
    if (levels < 1 || levels > 127) refuse("levels: must be from 1 to 127");
    const int64_t outputs = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    return filled_quantised<int8_t>(outputs, inputs, int8_panels_size, arena,
                                    [&](int8_t* panels, float* scales, int32_t* sums) {
                                        pack_int8(w.data(), outputs, inputs, levels, panels, scales, sums,
                                                  spread ? spread_of(inputs) : Spread{});
                                    });
}

nb::tuple packed_int8_numbers(Shaped<int8_t, 2> w, Shaped<float, 1> row_scales, int64_t outputs,
                              const WeightArenaPtr& arena) {
    const int64_t rows = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    if (static_cast<int64_t>(row_scales.shape(0)) != rows) refuse("scales: expected one per output");
    if (outputs < rows) refuse("outputs: fewer than the given rows");
    return filled_quantised<int8_t>(outputs, inputs, int8_panels_size, arena,
                                    [&](int8_t* panels, float* scales, int32_t* sums) {
                                        pack_int8_numbers(w.data(), row_scales.data(), rows, outputs, inputs,
                                                          panels, scales, sums);
                                    });
}

nb::tuple packed_int4(Shaped<float, 2> w, const WeightArenaPtr& arena) {
    const int64_t outputs = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    return filled_quantised<uint8_t>(outputs, inputs, int4_panels_size, arena,
                                     [&](uint8_t* panels, float* scales, int32_t* sums) {
                                         pack_int4(w.data(), outputs, inputs, panels, scales, sums);
                                     });
}

nb::object packed_bfloat16(Shaped<float, 2> w, const WeightArenaPtr& arena) {
    const int64_t outputs = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    check_sizes(outputs, inputs);
    const Unwritten<uint16_t> panels(bfloat16_panels_size(outputs, inputs), arena);
    {
        const nb::gil_scoped_release free;
        pack_bfloat16(w.data(), outputs, inputs, panels.data);
    }
    return panels.array;
}

nb::object packed_float(Shaped<float, 2> w, const WeightArenaPtr& arena) {
    const int64_t outputs = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    check_sizes(outputs, inputs);
    const Unwritten<float> panels(float_panels_size(outputs, inputs), arena);
    {
        const nb::gil_scoped_release free;
        pack_float(w.data(), outputs, inputs, panels.data);
    }
    return panels.array;
}

}  // namespace uwaga
