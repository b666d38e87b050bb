// Reader of the safetensors format (https://github.com/huggingface/safetensors) in memory; nothing is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace uwaga {

enum class Dtype : uint8_t { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 };

std::string_view dtype_name(Dtype dtype);  // as in files: "F32"
std::size_t dtype_bytes(Dtype dtype);

struct Tensor {
    Dtype dtype = Dtype::f32;
    std::vector<int64_t> shape;
    std::string_view bytes;  // little-endian, of the file; its address is aligned only if the header's length
                             // is
};

class Safetensors {
  public:
    static constexpr std::size_t max_header_bytes = 100'000'000;  // as in the library `safetensors`

    // Reads the header. The file must outlive this. Throws std::invalid_argument unless the tensors fill the
    // rest of the file, without a hole or an overlap, and each has a known number format and the size of its
    // shape.
    explicit Safetensors(std::string_view file);

    const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
    const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
    // A tensor by name, nullptr if the file has none.
    const Tensor* find(std::string_view name) const;

  private:
    std::map<std::string, Tensor, std::less<>> tensors_;
    std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace uwaga
