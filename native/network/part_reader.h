// Looks up the settings and weights of a model by name, and checks each weight against the shape it must
// have.
#pragma once

#include <map>
#include <set>
#include <string>

#include "network/network.h"

namespace uwaga {

// A vector of a file; PartReader copies it.
struct Vector {
    const float* data = nullptr;
    int64_t size = 0;
};

// The parts of a model. Names are those of src/uwaga/engine/layout.py; matrices are packed, and whoever
// packed them keeps their panels as long as the model.
struct Parts {
    std::map<std::string, double> settings;
    std::map<std::string, Matrix> matrices;
    std::map<std::string, Vector> vectors;
};

// Every function throws std::invalid_argument, which names the setting or the weight.
class PartReader {
  public:
    PartReader(Network& network, const Parts& parts) : parts_(parts), network_(network) {}

    int64_t integer(const std::string& name, int64_t min) const;
    float number(const std::string& name) const;

    Matrix matrix(const std::string& name, int64_t outputs, int64_t inputs);
    const float* vector(const std::string& name, int64_t size);  // a copy, padded with zeros to whole panels
    const float* optional_vector(const std::string& name, int64_t size);
    Linear linear(const std::string& name, int64_t outputs, int64_t inputs);
    Matrix embedding(const std::string& side, int64_t vocabulary, int64_t width);  // the output layer's, if
                                                                                   // it has none
    void check_all_used() const;

  protected:
    [[noreturn]] static void refuse(const std::string& message);
    double setting(const std::string& name) const;
    template <class Named>
    static const typename Named::mapped_type& find(const Named& named, const std::string& name) {
        const auto match = named.find(name);
        if (match == named.end()) refuse(name + ": weight is missing");
        return match->second;
    }

    const Parts& parts_;

  private:
    Network& network_;
    std::set<std::string> used_;
};

}  // namespace uwaga
