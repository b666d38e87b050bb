#include "checkpoints/packed_layout.h"

#include "kernels/kernels.h"

namespace uwaga {

PackedLayout packed_layout(const Settings& settings, int64_t source, int64_t target, Matrix::Kind kind,
                           const std::set<std::string>& kept) {
    const Matrix::Kind kept_kind = kind == Matrix::Kind::int8 ? Matrix::Kind::bfloat16 : Matrix::Kind::int8;
    PackedLayout layout;
    for (const Product& product : products(settings, source, target)) {
        const int64_t outputs = product.outputs(), inputs = product.inputs, rows = padded_outputs(outputs);
        PackedMatrix matrix{product.name, kept.count(product.name) ? kept_kind : kind, outputs, inputs, {}};
        const std::string panels = product.name + ":panels";
        if (matrix.kind == Matrix::Kind::bfloat16) {
            matrix.arrays = {{panels, Dtype::u16, {bfloat16_panels_size(outputs, inputs)}}};
        } else {
            const bool int8 = matrix.kind == Matrix::Kind::int8;
            const int64_t size = int8 ? int8_panels_size(outputs, inputs) : int4_panels_size(outputs, inputs);
            matrix.arrays = {{panels, int8 ? Dtype::i8 : Dtype::u8, {size}},
                             {product.name + ":scales", Dtype::f32, {rows}},
                             {product.name + ":sums", Dtype::i32, {rows}}};
        }
        layout.matrices.push_back(std::move(matrix));
        if (product.bias) layout.biases.push_back({product.name + ".bias", Dtype::f32, {outputs}});
    }
    for (const auto& [name, shape] : vectors(settings, target))
        layout.vectors.push_back({name == "output_bias" ? "output.bias" : name, Dtype::f32, shape});
    return layout;
}

}  // namespace uwaga
