// Int4Block of shared/int4_panels.inl where panels are always unpacked. Included inside an unnamed namespace.
#include "kernels/shared/int4_rows.inl"
#include "kernels/shared/int4_unpack.inl"

struct Int4Block {
    static constexpr int64_t rows = 0;
};
