#include "output/shortlist.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace uwaga {

namespace {

constexpr int64_t unit = 4;  // adjacent bytes of a token's weights in a panel, in every number format

int64_t units_of(const Matrix& w) {
    switch (w.kind) {
        case Matrix::Kind::int8:
        case Matrix::Kind::int4: return padded_inputs(w.inputs()) / unit;
        case Matrix::Kind::bfloat16: return (w.bfloat16.inputs + 1) / 2;
        default: return w.float32.inputs;
    }
}

const uint8_t* panels_of(const Matrix& w) {
    switch (w.kind) {
        case Matrix::Kind::int8: return reinterpret_cast<const uint8_t*>(w.int8.panels);
        case Matrix::Kind::bfloat16: return reinterpret_cast<const uint8_t*>(w.bfloat16.panels);
        default: return reinterpret_cast<const uint8_t*>(w.float32.panels);
    }
}

std::shared_ptr<const Buffer<uint8_t>> by_token(const Matrix& w) {
    const int64_t units = units_of(w), row = units * unit, tokens = w.outputs();
    std::vector<int8_t> unpacked(static_cast<std::size_t>(w.kind == Matrix::Kind::int4 ? panel * row : 0));
    auto weights = std::make_shared<Buffer<uint8_t>>(tokens * row);
    for (int64_t first = 0; first < tokens; first += panel) {
        const uint8_t* from = nullptr;
        if (w.kind == Matrix::Kind::int4) {  // stored as int8
            unpack_int4(w.int4.panels + first / panel * int4_panels_size(panel, w.int4.inputs), 1,
                        w.int4.inputs, unpacked.data());
            from = reinterpret_cast<const uint8_t*>(unpacked.data());
        } else {
            from = panels_of(w) + first * row;
        }
        uint8_t* to = weights->get() + first * row;
        const int64_t count = std::min(panel, tokens - first);
        for (int64_t k = 0; k < units; ++k, from += panel * unit, to += unit) {
            for (int64_t c = 0; c < count; ++c) std::memcpy(to + c * row, from + c * unit, unit);
        }
    }
    return weights;
}

class TokenSet {
  public:
    explicit TokenSet(int64_t vocabulary)
        : words_(static_cast<std::size_t>((vocabulary + bits - 1) / bits)) {}

    void add(int32_t token) {
        uint64_t& word = words_[static_cast<std::size_t>(token) / bits];
        const uint64_t bit = uint64_t{1} << static_cast<std::size_t>(token) % bits;
        count_ += !(word & bit);
        word |= bit;
    }
    void add_lowest(int64_t missing) {
        for (std::size_t word = 0; missing > 0; ++word) {
            for (; missing > 0 && ~words_[word]; --missing) {
                words_[word] |= words_[word] + 1;  // set the lowest clear bit
                ++count_;
            }
        }
    }
    int64_t count() const { return count_; }
    Tokens ascending() const {
        Tokens tokens;
        tokens.reserve(static_cast<std::size_t>(count_));
        for (std::size_t word = 0; word < words_.size(); ++word) {
            for (uint64_t remaining = words_[word]; remaining; remaining &= remaining - 1) {
                tokens.push_back(static_cast<int32_t>(word * bits) + __builtin_ctzll(remaining));
            }
        }
        return tokens;
    }

  private:
    static constexpr std::size_t bits = 64;
    std::vector<uint64_t> words_;
    int64_t count_ = 0;
};

AllowedPtr make_list(const Network& network, Tokens tokens, std::shared_ptr<const Buffer<uint8_t>> weights) {
    auto list = std::make_shared<Allowed>();
    list->tokens = std::move(tokens);
    list->weights = std::move(weights);
    const auto select = [&](auto& to, const auto* from) {
        to.reserve(list->tokens.size());
        for (const int32_t token : list->tokens) to.push_back(from[token]);
    };
    const Matrix& weight = network.output_weight;
    if (weight.quantised()) {
        select(list->scales, weight.scales());
        select(list->sums, weight.sums());
    }
    if (network.output_bias) select(list->biases, network.output_bias);
    return list;
}

}  // namespace

Shortlist::Shortlist(const Network& network, Tokens common, const int32_t* first, const int32_t* targets,
                     bool copy_source, int64_t multiple)
    : network_(network), common_(std::move(common)), first_(first), targets_(targets),
      copy_source_(copy_source), multiple_(multiple), weights_(by_token(network.output_weight)) {}

AllowedPtr Shortlist::allowed_for(const Tokens& source) const {
    TokenSet set(network_.target_vocabulary);
    for (const int32_t token : common_) set.add(token);
    for (const int32_t token : source) {
        for (int32_t i = first_[token]; i < first_[token + 1]; ++i) set.add(targets_[i]);
        if (copy_source_) set.add(token);
    }
    const int64_t missing = (multiple_ - set.count() % multiple_) % multiple_;
    set.add_lowest(std::min(missing, network_.target_vocabulary - set.count()));
    return make_list(network_, set.ascending(), weights_);
}

void attach(const Network& network, const DatastorePtr& datastore, EncodedSentence& sentence) {
    if (!datastore) return;
    sentence.datastore = datastore;
    if (!sentence.allowed) return;
    TokenSet set(network.target_vocabulary);
    for (const int32_t token : sentence.allowed->tokens) set.add(token);
    for (const int32_t token : datastore->tokens) set.add(token);
    sentence.allowed = make_list(network, set.ascending(), sentence.allowed->weights);
}
void restrict_to(const Shortlist& shortlist, const std::vector<Tokens>& sources, Memory& memory) {
    for (std::size_t s = 0; s < sources.size(); ++s)
        memory.sentences[s].allowed = shortlist.allowed_for(sources[s]);
}

}  // namespace uwaga
