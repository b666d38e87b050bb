// The tensors of int8 and int4 folders: the matrices of a model as the kernels read them, and its vectors.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoints/settings.h"
#include "files/safetensors.h"
#include "network/matrix.h"

namespace uwaga {

struct PackedTensor {
    std::string name;
    Dtype dtype;
    std::vector<int64_t> shape;
};

struct PackedMatrix {
    std::string name;
    Matrix::Kind kind;
    int64_t outputs, inputs;
    std::vector<PackedTensor> arrays;  // panels; of integers, also scales and sums
};

struct PackedLayout {
    std::vector<PackedMatrix> matrices;
    std::vector<PackedTensor> biases, vectors;
};

// `kind`: int8 or int4. `kept`: names of matrices in bfloat16 in an int8 folder, in int8 in an int4 folder.
PackedLayout packed_layout(const Settings& settings, int64_t source, int64_t target, Matrix::Kind kind,
                           const std::set<std::string>& kept);

}  // namespace uwaga
