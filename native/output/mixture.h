// The distribution of a sentence with a datastore: p = λ p_kNN + (1 - λ) p_model; the counterpart of
// uwaga.search.retrieval.
#pragma once

#include <array>
#include <cmath>

#include "network/network.h"

namespace uwaga {

class Mixture {
  public:
    Mixture() = default;  // the model's distribution
    Mixture(const Datastore& datastore, const float* features);

    explicit operator bool() const { return weight_ > 0; }
    double weight() const { return weight_; }
    int64_t count() const { return count_; }
    int32_t token(int64_t i) const { return tokens_[static_cast<std::size_t>(i)]; }
    double share(int64_t i) const { return shares_[static_cast<std::size_t>(i)]; }  // in p_kNN
    // The log-probability of a token, given the model's.
    double log_prob(double of_model, int32_t token) const {
        double share_of_token = 0;
        for (int64_t i = 0; i < count_; ++i) {
            if (this->token(i) == token) share_of_token = share(i);
        }
        return std::log((1 - weight_) * std::exp(of_model) + weight_ * share_of_token);
    }
    // Replace logits, whose log-sum-exp is `total`, by log-probabilities. `index_of` is where a token is.
    template <class IndexOf>
    void apply(float* logits, int64_t size, double total, const IndexOf& index_of) const {
        std::array<double, max_neighbours> mixed;
        for (int64_t i = 0; i < count_; ++i)
            mixed[static_cast<std::size_t>(i)] = log_prob(logits[index_of(token(i))] - total, token(i));
        const double shift = std::log1p(-weight_) - total;
        for (int64_t i = 0; i < size; ++i) logits[i] = static_cast<float>(logits[i] + shift);
        for (int64_t i = 0; i < count_; ++i)
            logits[index_of(token(i))] = static_cast<float>(mixed[static_cast<std::size_t>(i)]);
    }

  private:
    double weight_ = 0;  // λ
    int64_t count_ = 0;
    std::array<int32_t, max_neighbours> tokens_;  // different ones
    std::array<double, max_neighbours> shares_;
};

// The mixture of a sentence's row.
inline Mixture mixture_of(const EncodedSentence& sentence, const float* features) {
    return sentence.datastore ? Mixture(*sentence.datastore, features) : Mixture();
}

}  // namespace uwaga
