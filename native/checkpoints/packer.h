// Weights of files into a model: matrices packed for the kernels, vectors, tables of positions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/model_files.h"
#include "models/build.h"

namespace uwaga {

// The integers (rows, inputs) of a matrix and the scale of each row; rows that are missing at its end are
// zero.
struct Int8Weights {
    std::vector<int8_t> values;
    std::vector<float> scales;
    int64_t rows() const { return static_cast<int64_t>(scales.size()); }
};

// Weights by uwaga's names.
class StoredWeights {
  public:
    virtual ~StoredWeights() = default;
    virtual const std::string& file() const = 0;  // for messages
    // Check that a weight is stored with this shape. Throws Failure.
    virtual void check(const std::string& name, const std::vector<int64_t>& shape) = 0;
    // Check that there are no weights besides the checked ones. Throws Failure.
    virtual void check_used() const = 0;
    virtual void read(const std::string& name, const std::vector<int64_t>& shape, float* to) const = 0;
    // Append the integers of a weight; false if it is not stored as integers.
    virtual bool integers(const std::string&, const std::vector<int64_t>&, Int8Weights&) const {
        return false;
    }
};

class Packer {
  public:
    Packer(OpenedModel& opened, std::string location, const OpenOptions& options, int64_t source,
           int64_t target)
        : opened_(opened), location_(std::move(location)), options_(options), source_(source),
          target_(target) {}

    // Every function throws Failure, which names the file.
    void pack(StoredWeights& weights, bool int8);

    // Refuse a model that needs more than the bound, before anything is allocated.
    void reserve(int64_t bytes, int64_t extra);
    uint8_t* allocate(int64_t bytes);
    void add_vector(const std::string& file, const std::string& name, Buffer<float> values, int64_t size);
    void build(const std::string& file);
    static int64_t matrix_bytes(Matrix::Kind kind, int64_t outputs, int64_t inputs);
    static void check_finite(const std::string& file, const std::string& name, const float* values,
                             int64_t count);

    Parts parts;

  private:
    Matrix packed_float(const Product& product, const float* values);
    Matrix packed_int8(const Product& product, const float* values);
    Matrix packed_integers(const Product& product, const Int8Weights& weights);
    bool pack_integers(const StoredWeights& weights, const Product& product);
    void add_position_tables();

    OpenedModel& opened_;
    const std::string location_;
    const OpenOptions& options_;
    const int64_t source_, target_;           // vocabularies
    std::vector<Buffer<float>> values_;       // of vectors, until build_model() has copied them
    std::vector<std::vector<float>> tables_;  // of positions, the same
};

// Run `work`, whose std::invalid_argument is a fault of a file.
template <class Work>
auto named(const std::string& file, const Work& work) {
    try {
        return work();
    } catch (const std::invalid_argument& error) {
        throw Failure(Fault::model, file + ": " + error.what());
    } catch (const std::length_error&) {
        throw std::bad_alloc();
    }
}

int64_t size_of(const std::vector<int64_t>& shape);
float from_half(uint16_t half);

}  // namespace uwaga
