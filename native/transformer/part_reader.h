// Looks up the settings and weights of a model by name, and checks each weight against the shape it must
// have.
#pragma once

#include <set>
#include <string>

#include "transformer/build.h"

namespace uwaga {

// Every function throws std::invalid_argument, which names the setting or the weight.
class PartReader {
  public:
    PartReader(Model& model, const Parts& parts) : model_(model), parts_(parts) {}

    int64_t integer(const std::string& name, int64_t min) const;
    float number(const std::string& name) const;
    bool has(const std::string& setting) const { return parts_.settings.count(setting) > 0; }

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

    Model& model_;
    const Parts& parts_;

  private:
    std::set<std::string> used_;
};

}  // namespace uwaga
