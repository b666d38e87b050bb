// Included last by each file of isa/: the remaining functions and the kernel table. Needs Vec with float.inl
// and attention.inl and, for the products,
//     constexpr int float_rows    rows of a block with float weights: as many as keep float_rows * 32 sums in
//                                 registers
//     int8_panels                 see int8_panels.inl
//     Int4Block                   see int4_panels.inl
//     Int8Dots                    see listed.inl
// Included inside an unnamed namespace.

#include "kernels/shared/self_attention.inl"
#include "kernels/shared/recurrent.inl"
#include "kernels/shared/epilogue.inl"
#include "kernels/shared/int4_panels.inl"
#include "kernels/shared/product.inl"
#include "kernels/shared/output.inl"
#include "kernels/shared/listed.inl"
#include "kernels/shared/embedding.inl"
#include "kernels/shared/spread.inl"

constexpr Kernels table(Isa isa, const char* name) {
    return Kernels{isa,
                   name,
                   quantise,
                   spread,
                   int8_product,
                   int4_product,
                   float_product,
                   bfloat16_product,
                   int8_output,
                   int4_output,
                   float_output,
                   bfloat16_output,
                   int8_listed,
                   float_listed,
                   bfloat16_listed,
                   int8_embed,
                   int4_embed,
                   float_embed,
                   bfloat16_embed,
                   norm,
                   ssru,
                   rotate,
                   attend_float16,
                   attend_float,
                   self_attend,
                   gate,
                   gru,
                   lstm,
                   score_dot,
                   score_additive,
                   weigh_values,
                   predict_window,
                   to_float16};
}
