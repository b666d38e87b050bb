#include "search/phrases.h"

#include <algorithm>
#include <numeric>

namespace uwaga {

int32_t Phrases::edge(int32_t node, int32_t token) const {
    const auto index = static_cast<std::size_t>(node);
    const auto first_edge = tokens.begin() + first[index], last_edge = tokens.begin() + first[index + 1];
    const auto match = std::lower_bound(first_edge, last_edge, token);
    return match != last_edge && *match == token ? static_cast<int32_t>(match - tokens.begin()) : -1;
}

int32_t Phrases::next(int32_t node, int32_t token) const {
    int32_t match = edge(node, token);
    if (match < 0 && node) match = edge(0, token);
    return match < 0 ? 0 : targets[static_cast<std::size_t>(match)];
}

PhraseTracker::PhraseTracker(PhrasesPtr phrases, int64_t beams)
    : phrases_(std::move(phrases)), states_(static_cast<std::size_t>(beams)),
      counts_(static_cast<std::size_t>(beams * phrases_->count)) {}

// How often a hypothesis contains a phrase, including one that ends at the node.
int64_t PhraseTracker::count_occurrences(const int32_t* counts, int32_t node, int64_t phrase) const {
    const Phrases& p = *phrases_;
    return std::min<int64_t>(counts[phrase] + p.ends[static_cast<std::size_t>(node * p.count + phrase)],
                             p.times[static_cast<std::size_t>(phrase)]);
}

void PhraseTracker::requested_tokens(int64_t beam, std::vector<int32_t>& tokens) const {
    const Phrases& p = *phrases_;
    const int32_t node = state(beam).node;
    const int32_t* counts = counts_.data() + beam * p.count;
    tokens.clear();
    const auto collect = [&](int32_t start) {
        for (int64_t e = p.first[static_cast<std::size_t>(start)];
             e < p.first[static_cast<std::size_t>(start) + 1]; ++e) {
            for (int64_t c = 0; c < p.count; ++c) {
                if (!p.serves[static_cast<std::size_t>(e * p.count + c)] ||
                    count_occurrences(counts, node, c) >= p.times[static_cast<std::size_t>(c)])
                    continue;
                tokens.push_back(p.tokens[static_cast<std::size_t>(e)]);
                break;
            }
        }
    };
    collect(node);
    if (node) collect(0);
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

PhraseState PhraseTracker::advance(int64_t beam, int32_t token, bool continues_word, int32_t* counts) const {
    const Phrases& p = *phrases_;
    const int32_t node = state(beam).node, *before = counts_.data() + beam * p.count;
    PhraseState next_state{p.next(node, token), 0};
    int64_t open = 0;
    for (int64_t c = 0; c < p.count; ++c) {
        const std::size_t index = static_cast<std::size_t>(c);
        counts[c] = continues_word && p.whole_words[index]
                        ? before[c]
                        : static_cast<int32_t>(count_occurrences(before, node, c));
        const int64_t occurrences = count_occurrences(counts, next_state.node, c);
        next_state.bank += occurrences * p.sizes[index];
        if (occurrences < p.times[index])
            open = std::max<int64_t>(open,
                                     p.progress[static_cast<std::size_t>(next_state.node * p.count + c)]);
    }
    next_state.bank += open;
    return next_state;
}

int64_t PhraseTracker::last_bank_size() const {
    const int64_t slots = static_cast<int64_t>(states_.size()), groups = std::min(banks(), slots);
    return (slots + groups - 1) / groups;
}

void PhraseTracker::allocate(const std::vector<Claim>& claims, std::vector<uint8_t>& selected) const {
    const int64_t slots = static_cast<int64_t>(states_.size()), count = banks(),
                  groups = std::min(count, slots);
    const auto bank_of = [&](std::size_t i) { return phrases_->forced() ? claims[i].bank : 0; };
    const auto group_of = [&](std::size_t i) {
        return count > slots ? bank_of(i) * slots / count : bank_of(i);
    };
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        if (claims[i].eligible) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const int64_t first_group = group_of(a), second_group = group_of(b);
        return first_group < second_group || (first_group == second_group && bank_of(a) > bank_of(b));
    });
    std::vector<int64_t> filled(static_cast<std::size_t>(groups));
    std::vector<uint8_t> selected_now(claims.size());
    int64_t remaining = slots;
    for (const std::size_t i : order) {
        const int64_t group = group_of(i), quota = slots / groups + (group >= groups - slots % groups);
        if (filled[static_cast<std::size_t>(group)]++ >= quota) continue;
        selected_now[i] = 1;
        --remaining;
    }
    for (std::size_t i = 0; i < claims.size(); ++i) {  // slots that banks leave empty go to the best
                                                       // remaining claims
        if (claims[i].eligible && !selected_now[i] && remaining > 0) {
            selected_now[i] = 1;
            --remaining;
        }
        selected[i] |= selected_now[i];
    }
}

void PhraseTracker::set_states(std::vector<PhraseState> states, std::vector<int32_t> counts) {
    states_ = std::move(states);
    counts_ = std::move(counts);
}

}  // namespace uwaga
