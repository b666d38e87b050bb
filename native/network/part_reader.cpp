#include "network/part_reader.h"

#include <algorithm>
#include <stdexcept>

namespace uwaga {

void PartReader::refuse(const std::string& message) { throw std::invalid_argument(message); }

double PartReader::setting(const std::string& name) const {
    const auto match = parts_.settings.find(name);
    if (match == parts_.settings.end()) refuse(name + ": setting is missing");
    return match->second;
}

int64_t PartReader::integer(const std::string& name, int64_t min) const {
    const double value = setting(name);
    if (!(value >= static_cast<double>(min) && value < 2147483648.0)) refuse(name + ": out of range");
    return static_cast<int64_t>(value);
}

float PartReader::number(const std::string& name) const { return static_cast<float>(setting(name)); }

Matrix PartReader::matrix(const std::string& name, int64_t outputs, int64_t inputs) {
    const Matrix& match = find(parts_.matrices, name);
    used_.insert(name);
    if (match.outputs() != outputs || match.inputs() != inputs) {
        refuse(name + ": is " + std::to_string(match.outputs()) + " x " + std::to_string(match.inputs()) +
               ", expected " + std::to_string(outputs) + " x " + std::to_string(inputs));
    }
    return match;
}

const float* PartReader::vector(const std::string& name, int64_t size) {
    const Vector& match = find(parts_.vectors, name);
    used_.insert(name);
    if (match.size != size)
        refuse(name + ": " + std::to_string(match.size) + " numbers, expected " + std::to_string(size));
    Buffer<float> copy(rounded(size, panel));
    std::copy(match.data, match.data + size, copy.get());
    std::fill(copy.get() + size, copy.get() + rounded(size, panel), 0.0f);
    network_.vectors.push_back(std::move(copy));
    return network_.vectors.back().get();
}

const float* PartReader::optional_vector(const std::string& name, int64_t size) {
    return parts_.vectors.count(name) ? vector(name, size) : nullptr;
}

Linear PartReader::linear(const std::string& name, int64_t outputs, int64_t inputs) {
    return {matrix(name, outputs, inputs), optional_vector(name + ".bias", outputs)};
}

Matrix PartReader::embedding(const std::string& side, int64_t vocabulary, int64_t width) {
    const bool separate = parts_.matrices.count(side + "_embedding");
    return matrix(separate ? side + "_embedding" : "output", vocabulary, width);
}

void PartReader::check_all_used() const {
    if (used_.size() != parts_.matrices.size() + parts_.vectors.size())
        refuse("some of the given weights are not part of the model");
}

}  // namespace uwaga
