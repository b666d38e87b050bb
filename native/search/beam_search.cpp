#include "search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace uwaga {

BeamSearch::BeamSearch(ModelPtr model, BeamRules rules) : model_(std::move(model)), rules_(std::move(rules)), never_yet_(rules_.never) {
    never_yet_.insert(std::lower_bound(never_yet_.begin(), never_yet_.end(), rules_.end), rules_.end);
}

int64_t BeamSearch::enter(const Memory& memory, std::vector<Entry> entries) {
    const int64_t first = entered_;
    whole_ = false;
    state_ = running_.empty() ? start(memory, rules_.beams) : admit(std::move(state_), memory);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        entries[i].source = model_->has_source() ? memory.sentences[i].length : static_cast<int64_t>(memory.prompts[i].offsets.size()) + 1;
        running_.emplace_back(entered_++, rules_, std::move(entries[i]));
    }
    whole_ = true;
    return first;
}

void BeamSearch::leave(const std::function<bool(int64_t)>& gone) {
    std::vector<int64_t> stay;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        if (gone(running_[s].number())) continue;
        if (stay.size() < s) running_[stay.size()] = std::move(running_[s]);
        stay.push_back(static_cast<int64_t>(s));
    }
    if (stay.size() == running_.size()) return;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(stay.size()), running_.end());
    state_ = stay.empty() ? State{} : select(state_, stay.data(), static_cast<int64_t>(stay.size()));
}

void BeamSearch::run(int64_t tokens) {
    const auto decoded = [&] {
        int64_t sum = 0;
        for (const SentenceSearch& sentence : running_) sum += sentence.source();
        return sum;
    };
    do {
        model_->workers.check();
        step();
    } while (decoded() > tokens);
}

void BeamSearch::step() {
    for (SentenceSearch& sentence : running_) sentence.begin_step();
    int64_t k = 0, wanted = 0;
    State next;
    try {
        next = next_state(k, wanted);
    } catch (...) {
        for (SentenceSearch& sentence : running_) sentence.undo_begin();
        throw;
    }
    whole_ = false;
    settle(std::move(next), k, wanted);
    whole_ = true;
}

std::vector<int64_t> BeamSearch::failing() {
    std::vector<int64_t> found;
    if (!std::exchange(whole_, false)) return found;
    const State state = std::move(state_);
    std::vector<SentenceSearch> every = std::move(running_);
    for (std::size_t s = 0; s < every.size(); ++s) {
        const int64_t at = static_cast<int64_t>(s);
        running_.clear();
        running_.push_back(std::move(every[s]));
        running_[0].begin_step();
        try {
            state_ = select(state, &at, 1);
            int64_t k = 0, wanted = 0;
            next_state(k, wanted);
        } catch (...) {
            found.push_back(running_[0].number());
        }
        running_[0].undo_begin();
        every[s] = std::move(running_[0]);
    }
    state_ = state;
    running_ = std::move(every);
    whole_ = true;
    return found;
}

// Compute the next state; its candidates are left in tokens_ and log_probs_. The search itself does not change.
State BeamSearch::next_state(int64_t& k, int64_t& of_phrases) {
    std::vector<int32_t> fed;
    for (const SentenceSearch& sentence : running_) {
        for (const Beam& beam : sentence.beams()) fed.push_back(beam.token);
    }
    if (!model_->has_source()) feed_last_of_prompts(state_, fed.data());
    const Request wanted = request();
    Answer answer;
    answer.k = wanted.count;
    answer.wanted = wanted.wanted_count;
    const int64_t width = answer.k + answer.wanted;
    tokens_.resize(fed.size() * static_cast<std::size_t>(width));
    log_probs_.resize(tokens_.size());
    answer.tokens = tokens_.data();
    answer.log_probs = log_probs_.data();
    State next = uwaga::step(state_, fed.data(), wanted, answer);
    check_numbers(static_cast<std::size_t>(rules_.beams * width));
    k = answer.k;
    of_phrases = answer.wanted;
    return next;
}

void BeamSearch::check_numbers(std::size_t of_each) {
    std::vector<int64_t> wrong;
    std::string message;
    for (std::size_t i = 0; i < log_probs_.size(); ++i) {
        if (!std::isnan(log_probs_[i])) continue;
        const SentenceSearch& sentence = running_[i / of_each];
        if (wrong.empty()) {
            message = "the model's log-probabilities are not numbers at target token " + std::to_string(sentence.steps()) +
                      ": its weights are damaged, or overflow in this precision";
        }
        wrong.push_back(sentence.number());
        i += of_each - i % of_each - 1;
    }
    if (wrong.empty()) return;
    throw NotNumbers(message, std::move(wrong));
}

// The request of the next step: banned, forced and wanted tokens of each row.
Request BeamSearch::request() {
    Request made;
    made.count = rules_.beams == 1 ? 1 : std::min(2 * rules_.beams, model_->target_vocabulary);
    made.renormalise = rules_.renormalise;
    made.banned_first.push_back(0);
    forced_.clear();
    for (const SentenceSearch& sentence : running_) {
        const std::vector<int32_t>& banned = sentence.too_short() ? never_yet_ : rules_.never;
        for (int64_t beam = 0; beam < rules_.beams; ++beam) {
            made.banned.insert(made.banned.end(), banned.begin(), banned.end());
            made.banned_first.push_back(static_cast<int32_t>(made.banned.size()));
            forced_.push_back(sentence.forced());
        }
    }
    if (made.banned.empty()) made.banned_first.clear();
    if (std::any_of(forced_.begin(), forced_.end(), [](int64_t token) { return token >= 0; })) made.forced = forced_.data();
    add_wanted(made);
    return made;
}

// Add the tokens that continue phrases: one row per beam, padded with -1.
void BeamSearch::add_wanted(Request& request) {
    std::vector<std::vector<int32_t>> every;
    std::size_t most = 0;
    for (const SentenceSearch& sentence : running_) {
        for (int64_t beam = 0; beam < rules_.beams; ++beam) {
            every.emplace_back();
            // Before the first token the other beams equal the first and do not count. With equal requests they need
            // not be computed.
            sentence.wanted(sentence.steps() == 1 ? 0 : beam, every.back());
            most = std::max(most, every.back().size());
        }
    }
    if (!most) return;
    wanted_.assign(every.size() * most, -1);
    for (std::size_t row = 0; row < every.size(); ++row) std::copy(every[row].begin(), every[row].end(), wanted_.begin() + static_cast<std::ptrdiff_t>(row * most));
    request.wanted = wanted_.data();
    request.wanted_count = static_cast<int64_t>(most);
}

// Hand the step's candidates to their sentences, remove finished sentences and reorder the rows of the others.
void BeamSearch::settle(State state, int64_t k, int64_t wanted) {
    std::vector<int64_t> stay, rows, came_from(static_cast<std::size_t>(rules_.beams));
    bool moved = false;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        SentenceSearch& sentence = running_[s];
        const int64_t first = static_cast<int64_t>(s) * rules_.beams * (k + wanted), row = static_cast<int64_t>(rows.size());
        const bool goes_on = sentence.advance(tokens_.data() + first, log_probs_.data() + first, k, wanted, came_from.data());
        if (sentence.streams()) {
            const auto [token, log_prob] = sentence.decided();
            if (token >= 0) decided_.push_back({sentence.number(), token, log_prob});
        }
        if (!goes_on) {
            done_.push_back({sentence.number(), sentence.found(), rules_.keep_tree ? sentence.tried() : std::vector<Tried>{}});
            continue;
        }
        for (int64_t beam = 0; beam < rules_.beams; ++beam) {
            const int64_t from = came_from[static_cast<std::size_t>(beam)];
            moved = moved || from != beam;
            rows.push_back(row + from);
        }
        if (stay.size() < s) running_[stay.size()] = std::move(sentence);
        stay.push_back(static_cast<int64_t>(s));
    }
    if (stay.size() < running_.size()) {
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(stay.size()), running_.end());
        state = stay.empty() ? State{} : select(state, stay.data(), static_cast<int64_t>(stay.size()));
    }
    state_ = moved ? reorder(state, rows.data(), static_cast<int64_t>(rows.size())) : std::move(state);
}

}  // namespace uwaga
