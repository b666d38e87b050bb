#include "search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace uwaga {

BeamSearch::BeamSearch(ModelPtr model, BeamRules rules) : model_(std::move(model)), rules_(std::move(rules)), never_yet_(rules_.never) {
    never_yet_.push_back(rules_.end);
    never_yet_.insert(never_yet_.end(), rules_.other_ends.begin(), rules_.other_ends.end());
    std::sort(never_yet_.begin(), never_yet_.end());
    never_yet_.erase(std::unique(never_yet_.begin(), never_yet_.end()), never_yet_.end());
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

// Compute the next state; its candidates are left in tokens_ and log_probs_. The search itself does not change. With
// drafts, the state has a sentence for each row.
State BeamSearch::next_state(int64_t& k, int64_t& of_phrases) {
    std::vector<int32_t> fed;
    for (const SentenceSearch& sentence : running_) {
        for (const Beam& beam : sentence.beams()) fed.push_back(beam.token);
    }
    if (!model_->has_source()) feed_last_of_prompts(state_, fed.data());
    propose(fed);
    const Request wanted = request();
    Answer answer;
    answer.k = wanted.count;
    answer.wanted = wanted.wanted_count;
    const int64_t width = answer.k + answer.wanted;
    tokens_.resize(fed_.size() * static_cast<std::size_t>(width));
    log_probs_.resize(tokens_.size());
    answer.tokens = tokens_.data();
    answer.log_probs = log_probs_.data();
    State next = drafts_ ? verify(state_, first_rows_, fed_.data(), wanted, answer) : uwaga::step(state_, fed_.data(), wanted, answer);
    if (rules_.beams == 1 && answer.wanted) favour_drafts(width);
    check_numbers(width);
    k = answer.k;
    of_phrases = answer.wanted;
    return next;
}

// Set the rows of each sentence: one for each beam, or the last token of its beam and those that its draft proposes.
void BeamSearch::propose(std::vector<int32_t>& fed) {
    first_rows_.assign(1, 0);
    fed_.clear();
    drafts_ = false;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const auto first = fed.begin() + static_cast<std::ptrdiff_t>(s) * rules_.beams;
        fed_.insert(fed_.end(), first, first + rules_.beams);
        if (rules_.beams == 1 && can_verify(*model_)) {
            const auto [tokens, count] = running_[s].proposal(model_->shape.max_length - state_.sentences[s].position - 1);
            fed_.insert(fed_.end(), tokens, tokens + count);
            drafts_ = drafts_ || count;
        }
        first_rows_.push_back(static_cast<int64_t>(fed_.size()));
    }
}

// Apply the bias towards drafts to all rows.
void BeamSearch::favour_drafts(int64_t width) {
    for (std::size_t s = 0; s < running_.size(); ++s) {
        for (int64_t row = first_rows_[s]; row < first_rows_[s + 1]; ++row) {
            running_[s].favour(running_[s].favoured(row - first_rows_[s]), tokens_.data() + row * width, log_probs_.data() + row * width, width - 1);
        }
    }
}

// Whether the token decided in a row is the one that was fed to the next row, before row `last`.
bool BeamSearch::accepted(std::size_t row, std::size_t last, int64_t width) const {
    return row + 1 < last && tokens_[row * static_cast<std::size_t>(width)] == fed_[row + 1];
}

// Rows after a rejected token don't count.
void BeamSearch::check_numbers(int64_t width) {
    std::vector<int64_t> wrong;
    std::string message;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const std::size_t first = static_cast<std::size_t>(first_rows_[s]), last = static_cast<std::size_t>(first_rows_[s + 1]);
        for (std::size_t row = first; row < last; ++row) {
            const auto of_row = log_probs_.begin() + static_cast<std::ptrdiff_t>(row) * width;
            if (std::any_of(of_row, of_row + width, [](float one) { return std::isnan(one); })) {
                const int64_t ahead = rules_.beams == 1 ? static_cast<int64_t>(row - first) : 0;
                if (wrong.empty()) {
                    message = "the model's log-probabilities are not numbers at target token " + std::to_string(running_[s].steps() + ahead) +
                              ": its weights are damaged, or overflow in this precision";
                }
                wrong.push_back(running_[s].number());
                break;
            }
            if (rules_.beams == 1 && !accepted(row, last, width)) break;
        }
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
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const SentenceSearch& sentence = running_[s];
        for (int64_t row = 0; row < first_rows_[s + 1] - first_rows_[s]; ++row) {
            const int64_t ahead = rules_.beams == 1 ? row : 0;
            const std::vector<int32_t>& banned = sentence.too_short(ahead) ? never_yet_ : rules_.never;
            made.banned.insert(made.banned.end(), banned.begin(), banned.end());
            made.banned_first.push_back(static_cast<int32_t>(made.banned.size()));
            forced_.push_back(sentence.forced(ahead));
        }
    }
    if (made.banned.empty()) made.banned_first.clear();
    if (std::any_of(forced_.begin(), forced_.end(), [](int64_t token) { return token >= 0; })) made.forced = forced_.data();
    add_wanted(made);
    return made;
}

// Add the tokens that continue phrases, or that a draft favours: one row per row of the step, padded with -1.
void BeamSearch::add_wanted(Request& request) {
    std::vector<std::vector<int32_t>> every;
    std::size_t most = 0;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const SentenceSearch& sentence = running_[s];
        for (int64_t row = 0; row < first_rows_[s + 1] - first_rows_[s]; ++row) {
            every.emplace_back();
            // Before the first token the other beams equal the first and do not count. With equal requests they need
            // not be computed.
            if (rules_.beams > 1 || row == 0) sentence.wanted(sentence.steps() == 1 ? 0 : row, every.back());
            if (const int64_t favoured = rules_.beams == 1 ? sentence.favoured(row) : -1; favoured >= 0) every.back().push_back(static_cast<int32_t>(favoured));
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
    const int64_t width = k + wanted;
    std::size_t kept = 0;
    bool moved = false;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        SentenceSearch& sentence = running_[s];
        const std::size_t first = static_cast<std::size_t>(first_rows_[s]), last = static_cast<std::size_t>(first_rows_[s + 1]);
        std::size_t row = first;
        bool goes_on = advance(sentence, row, k, wanted, came_from.data());
        for (; rules_.beams == 1 && goes_on && accepted(row, last, width); ++row) {
            sentence.begin_step();
            goes_on = advance(sentence, row + 1, k, wanted, came_from.data());
        }
        if (rules_.beams == 1) sentence.count(static_cast<int64_t>(last - first) - 1, static_cast<int64_t>(row - first));
        if (!goes_on) {
            done_.push_back({sentence.number(), sentence.found(), rules_.keep_tree ? sentence.tried() : std::vector<Tried>{}});
            continue;
        }
        for (int64_t beam = 0; beam < rules_.beams; ++beam) {
            const int64_t from = came_from[static_cast<std::size_t>(beam)];
            moved = moved || from != beam;
            rows.push_back(static_cast<int64_t>(kept) * rules_.beams + from);
        }
        if (kept < s) running_[kept] = std::move(sentence);
        ++kept;
        stay.push_back(static_cast<int64_t>(drafts_ ? row : s));
    }
    if (kept < running_.size() || drafts_) {
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(kept), running_.end());
        state = stay.empty() ? State{} : select(state, stay.data(), static_cast<int64_t>(stay.size()));
    }
    state_ = moved ? reorder(state, rows.data(), static_cast<int64_t>(rows.size())) : std::move(state);
}

// Let a sentence take the candidates from a row on; returns whether it goes on.
bool BeamSearch::advance(SentenceSearch& sentence, std::size_t row, int64_t k, int64_t wanted, int64_t* came_from) {
    const std::size_t at = row * static_cast<std::size_t>(k + wanted);
    const bool goes_on = sentence.advance(tokens_.data() + at, log_probs_.data() + at, k, wanted, came_from);
    if (sentence.streams()) {
        const auto [token, log_prob] = sentence.decided();
        if (token >= 0) decided_.push_back({sentence.number(), token, log_prob});
    }
    return goes_on;
}

}  // namespace uwaga
