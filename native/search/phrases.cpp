#include "search/phrases.h"

#include <algorithm>
#include <numeric>

namespace uwaga {

int32_t Phrases::edge(int32_t node, int32_t token) const {
    const auto at = static_cast<std::size_t>(node);
    const auto begin = tokens.begin() + first[at], end = tokens.begin() + first[at + 1];
    const auto found = std::lower_bound(begin, end, token);
    return found != end && *found == token ? static_cast<int32_t>(found - tokens.begin()) : -1;
}

int32_t Phrases::next(int32_t node, int32_t token) const {
    int32_t found = edge(node, token);
    if (found < 0 && node) found = edge(0, token);
    return found < 0 ? 0 : targets[static_cast<std::size_t>(found)];
}

PhraseTracker::PhraseTracker(PhrasesPtr phrases, int64_t beams)
    : phrases_(std::move(phrases)), held_(static_cast<std::size_t>(beams)), counts_(static_cast<std::size_t>(beams * phrases_->count)) {}

// How often a hypothesis contains a phrase, including one that ends at the node.
int64_t PhraseTracker::counted(const int32_t* counts, int32_t node, int64_t phrase) const {
    const Phrases& p = *phrases_;
    return std::min<int64_t>(counts[phrase] + p.ends[static_cast<std::size_t>(node * p.count + phrase)], p.times[static_cast<std::size_t>(phrase)]);
}

void PhraseTracker::wanted(int64_t beam, std::vector<int32_t>& tokens) const {
    const Phrases& p = *phrases_;
    const int32_t node = held(beam).node;
    const int32_t* counts = counts_.data() + beam * p.count;
    tokens.clear();
    const auto look = [&](int32_t from) {
        for (int64_t e = p.first[static_cast<std::size_t>(from)]; e < p.first[static_cast<std::size_t>(from) + 1]; ++e) {
            for (int64_t c = 0; c < p.count; ++c) {
                if (!p.serves[static_cast<std::size_t>(e * p.count + c)] || counted(counts, node, c) >= p.times[static_cast<std::size_t>(c)]) continue;
                tokens.push_back(p.tokens[static_cast<std::size_t>(e)]);
                break;
            }
        }
    };
    look(node);
    if (node) look(0);
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

Held PhraseTracker::reach(int64_t beam, int32_t token, bool inside, int32_t* counts) const {
    const Phrases& p = *phrases_;
    const int32_t node = held(beam).node, *before = counts_.data() + beam * p.count;
    Held made{p.next(node, token), 0};
    int64_t open = 0;
    for (int64_t c = 0; c < p.count; ++c) {
        const std::size_t at = static_cast<std::size_t>(c);
        counts[c] = inside && p.whole[at] ? before[c] : static_cast<int32_t>(counted(before, node, c));
        const int64_t now = counted(counts, made.node, c);
        made.bank += now * p.sizes[at];
        if (now < p.times[at]) open = std::max<int64_t>(open, p.progress[static_cast<std::size_t>(made.node * p.count + c)]);
    }
    made.bank += open;
    return made;
}

int64_t PhraseTracker::last() const {
    const int64_t places = static_cast<int64_t>(held_.size()), groups = std::min(banks(), places);
    return (places + groups - 1) / groups;
}

void PhraseTracker::share(const std::vector<Claim>& claims, std::vector<uint8_t>& taken) const {
    const int64_t places = static_cast<int64_t>(held_.size()), count = banks(), groups = std::min(count, places);
    const auto bank_of = [&](std::size_t i) { return phrases_->forced() ? claims[i].bank : 0; };
    const auto group_of = [&](std::size_t i) { return count > places ? bank_of(i) * places / count : bank_of(i); };
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        if (claims[i].eligible) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const int64_t one = group_of(a), other = group_of(b);
        return one < other || (one == other && bank_of(a) > bank_of(b));
    });
    std::vector<int64_t> filled(static_cast<std::size_t>(groups));
    std::vector<uint8_t> now(claims.size());
    int64_t left = places;
    for (const std::size_t i : order) {
        const int64_t group = group_of(i), quota = places / groups + (group >= groups - places % groups);
        if (filled[static_cast<std::size_t>(group)]++ >= quota) continue;
        now[i] = 1;
        --left;
    }
    for (std::size_t i = 0; i < claims.size(); ++i) {  // places that banks leave empty go to the best remaining claims
        if (claims[i].eligible && !now[i] && left > 0) {
            now[i] = 1;
            --left;
        }
        taken[i] |= now[i];
    }
}

void PhraseTracker::follow(std::vector<Held> held, std::vector<int32_t> counts) {
    held_ = std::move(held);
    counts_ = std::move(counts);
}

}  // namespace uwaga
