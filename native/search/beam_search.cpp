#include "search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace uwaga {

BeamSearch::BeamSearch(NetworkPtr network, BeamRules rules)
    : network_(std::move(network)), rules_(std::move(rules)), banned_before_end_(rules_.banned) {
    banned_before_end_.push_back(rules_.end);
    banned_before_end_.insert(banned_before_end_.end(), rules_.other_ends.begin(), rules_.other_ends.end());
    std::sort(banned_before_end_.begin(), banned_before_end_.end());
    banned_before_end_.erase(std::unique(banned_before_end_.begin(), banned_before_end_.end()),
                             banned_before_end_.end());
}

int64_t BeamSearch::enter(const Memory& memory, std::vector<Entry> entries) {
    const int64_t first = entered_;
    consistent_ = false;
    state_ = running_.empty() ? network_->start(memory, rules_.beams) : admit(std::move(state_), memory);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        entries[i].source = memory.sentences[i].length;
        running_.emplace_back(entered_++, rules_, std::move(entries[i]));
    }
    consistent_ = true;
    return first;
}

void BeamSearch::leave(const std::function<bool(int64_t)>& removed) {
    std::vector<int64_t> remaining;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        if (removed(running_[s].number())) continue;
        if (remaining.size() < s) running_[remaining.size()] = std::move(running_[s]);
        remaining.push_back(static_cast<int64_t>(s));
    }
    if (remaining.size() == running_.size()) return;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(remaining.size()), running_.end());
    state_ = remaining.empty() ? State{}
                               : select(state_, remaining.data(), static_cast<int64_t>(remaining.size()));
}

void BeamSearch::run(int64_t tokens) {
    const auto decoded = [&] {
        int64_t sum = 0;
        for (const SentenceSearch& sentence : running_) sum += sentence.source();
        return sum;
    };
    do {
        network_->workers.check();
        step();
    } while (decoded() > tokens);
}

void BeamSearch::step() {
    for (SentenceSearch& sentence : running_) sentence.start_step();
    int64_t k = 0, requested = 0;
    State next;
    try {
        next = next_state(k, requested);
    } catch (...) {
        for (SentenceSearch& sentence : running_) sentence.undo_step();
        throw;
    }
    consistent_ = false;
    apply_candidates(std::move(next), k, requested);
    consistent_ = true;
}

std::vector<int64_t> BeamSearch::failing_sentences() {
    std::vector<int64_t> numbers;
    if (!std::exchange(consistent_, false)) return numbers;
    const State state = std::move(state_);
    std::vector<SentenceSearch> sentences = std::move(running_);
    for (std::size_t s = 0; s < sentences.size(); ++s) {
        const int64_t index = static_cast<int64_t>(s);
        running_.clear();
        running_.push_back(std::move(sentences[s]));
        running_[0].start_step();
        try {
            state_ = select(state, &index, 1);
            int64_t k = 0, requested = 0;
            next_state(k, requested);
        } catch (...) {
            numbers.push_back(running_[0].number());
        }
        running_[0].undo_step();
        sentences[s] = std::move(running_[0]);
    }
    state_ = state;
    running_ = std::move(sentences);
    consistent_ = true;
    return numbers;
}

// Compute the next state; its candidates are left in tokens_ and log_probs_. The search itself does not
// change. With drafts, the state has a sentence for each row.
State BeamSearch::next_state(int64_t& k, int64_t& requested) {
    std::vector<int32_t> last_tokens;
    for (const SentenceSearch& sentence : running_) {
        for (const Beam& beam : sentence.beams()) last_tokens.push_back(beam.token);
    }
    if (!network_->has_source()) feed_last_prompt_tokens(state_, last_tokens.data());
    propose(last_tokens);
    const Request next_request = request();
    Answer answer;
    answer.k = next_request.count;
    answer.requested = next_request.requested_count;
    const int64_t width = answer.k + answer.requested;
    tokens_.resize(input_tokens_.size() * static_cast<std::size_t>(width));
    log_probs_.resize(tokens_.size());
    answer.tokens = tokens_.data();
    answer.log_probs = log_probs_.data();
    State next = drafts_ ? network_->verify(state_, first_rows_, input_tokens_.data(), next_request, answer)
                         : network_->step(state_, input_tokens_.data(), next_request, answer);
    if (rules_.beams == 1 && answer.requested) apply_draft_bias(width);
    check_numbers(width);
    k = answer.k;
    requested = answer.requested;
    return next;
}

// Set the rows of each sentence: one for each beam, or the last token of its beam and those that its draft
// proposes.
void BeamSearch::propose(std::vector<int32_t>& last_tokens) {
    first_rows_.assign(1, 0);
    input_tokens_.clear();
    drafts_ = false;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const auto first = last_tokens.begin() + static_cast<std::ptrdiff_t>(s) * rules_.beams;
        input_tokens_.insert(input_tokens_.end(), first, first + rules_.beams);
        if (rules_.beams == 1 && network_->can_verify()) {
            const auto [tokens, count] = running_[s].proposal(network_->max_length -
                                                              state_.sentences[s].position - 1);
            input_tokens_.insert(input_tokens_.end(), tokens, tokens + count);
            drafts_ = drafts_ || count;
        }
        first_rows_.push_back(static_cast<int64_t>(input_tokens_.size()));
    }
}

// Apply the bias towards drafts to all rows.
void BeamSearch::apply_draft_bias(int64_t width) {
    for (std::size_t s = 0; s < running_.size(); ++s) {
        for (int64_t row = first_rows_[s]; row < first_rows_[s + 1]; ++row) {
            running_[s].favour(running_[s].favoured(row - first_rows_[s]), tokens_.data() + row * width,
                               log_probs_.data() + row * width, width - 1);
        }
    }
}

// Whether the token decided in a row is the one that was fed to the next row, before row `last`.
bool BeamSearch::accepted(std::size_t row, std::size_t last, int64_t width) const {
    return row + 1 < last && tokens_[row * static_cast<std::size_t>(width)] == input_tokens_[row + 1];
}

// Rows after a rejected token don't count.
void BeamSearch::check_numbers(int64_t width) {
    std::vector<int64_t> invalid;
    std::string message;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const std::size_t first = static_cast<std::size_t>(first_rows_[s]),
                          last = static_cast<std::size_t>(first_rows_[s + 1]);
        for (std::size_t row = first; row < last; ++row) {
            const auto row_start = log_probs_.begin() + static_cast<std::ptrdiff_t>(row) * width;
            if (std::any_of(row_start, row_start + width,
                            [](float log_prob) { return std::isnan(log_prob); })) {
                const int64_t ahead = rules_.beams == 1 ? static_cast<int64_t>(row - first) : 0;
                if (invalid.empty()) {
                    message = "the model's log-probabilities are not numbers at target token " +
                              std::to_string(running_[s].steps() + ahead) +
                              ": its weights are damaged, or overflow in this precision";
                }
                invalid.push_back(running_[s].number());
                break;
            }
            if (rules_.beams == 1 && !accepted(row, last, width)) break;
        }
    }
    if (invalid.empty()) return;
    throw NotNumbers(message, std::move(invalid));
}

// The request of the next step: banned, forced and requested tokens of each row.
Request BeamSearch::request() {
    Request request;
    request.count = rules_.beams == 1 ? 1 : std::min(2 * rules_.beams, network_->target_vocabulary);
    request.renormalise = rules_.renormalise;
    request.banned_first.push_back(0);
    forced_.clear();
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const SentenceSearch& sentence = running_[s];
        for (int64_t row = 0; row < first_rows_[s + 1] - first_rows_[s]; ++row) {
            const int64_t ahead = rules_.beams == 1 ? row : 0;
            const std::vector<int32_t>& banned = sentence.too_short(ahead) ? banned_before_end_
                                                                           : rules_.banned;
            request.banned.insert(request.banned.end(), banned.begin(), banned.end());
            request.banned_first.push_back(static_cast<int32_t>(request.banned.size()));
            forced_.push_back(sentence.forced(ahead));
        }
    }
    if (request.banned.empty()) request.banned_first.clear();
    if (std::any_of(forced_.begin(), forced_.end(), [](int64_t token) { return token >= 0; }))
        request.forced = forced_.data();
    add_requested(request);
    return request;
}

// Add the tokens that continue phrases, or that a draft favours: one row per row of the step, padded with -1.
void BeamSearch::add_requested(Request& request) {
    std::vector<std::vector<int32_t>> row_tokens;
    std::size_t max_count = 0;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        const SentenceSearch& sentence = running_[s];
        for (int64_t row = 0; row < first_rows_[s + 1] - first_rows_[s]; ++row) {
            row_tokens.emplace_back();
            // Before the first token the other beams equal the first and do not count. With equal requests
            // they need not be computed.
            if (rules_.beams > 1 || row == 0)
                sentence.requested_tokens(sentence.steps() == 1 ? 0 : row, row_tokens.back());
            if (const int64_t favoured = rules_.beams == 1 ? sentence.favoured(row) : -1; favoured >= 0)
                row_tokens.back().push_back(static_cast<int32_t>(favoured));
            max_count = std::max(max_count, row_tokens.back().size());
        }
    }
    if (!max_count) return;
    requested_.assign(row_tokens.size() * max_count, -1);
    for (std::size_t row = 0; row < row_tokens.size(); ++row)
        std::copy(row_tokens[row].begin(), row_tokens[row].end(),
                  requested_.begin() + static_cast<std::ptrdiff_t>(row * max_count));
    request.requested = requested_.data();
    request.requested_count = static_cast<int64_t>(max_count);
}

// Hand the step's candidates to their sentences, remove finished sentences and reorder the rows of the
// others.
void BeamSearch::apply_candidates(State state, int64_t k, int64_t requested) {
    std::vector<int64_t> remaining, rows, parents(static_cast<std::size_t>(rules_.beams));
    const int64_t width = k + requested;
    std::size_t count = 0;
    bool moved = false;
    for (std::size_t s = 0; s < running_.size(); ++s) {
        SentenceSearch& sentence = running_[s];
        const std::size_t first = static_cast<std::size_t>(first_rows_[s]),
                          last = static_cast<std::size_t>(first_rows_[s + 1]);
        std::size_t row = first;
        bool continues = advance(sentence, row, k, requested, parents.data());
        for (; rules_.beams == 1 && continues && accepted(row, last, width); ++row) {
            sentence.start_step();
            continues = advance(sentence, row + 1, k, requested, parents.data());
        }
        if (rules_.beams == 1)
            sentence.count(static_cast<int64_t>(last - first) - 1, static_cast<int64_t>(row - first));
        if (!continues) {
            finished_.push_back({sentence.number(), sentence.hypotheses(),
                                 rules_.keep_tree ? sentence.tree() : std::vector<TreeNode>{}});
            continue;
        }
        for (int64_t beam = 0; beam < rules_.beams; ++beam) {
            const int64_t from = parents[static_cast<std::size_t>(beam)];
            moved = moved || from != beam;
            rows.push_back(static_cast<int64_t>(count) * rules_.beams + from);
        }
        if (count < s) running_[count] = std::move(sentence);
        ++count;
        remaining.push_back(static_cast<int64_t>(drafts_ ? row : s));
    }
    if (count < running_.size() || drafts_) {
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(count), running_.end());
        state = remaining.empty() ? State{}
                                  : select(state, remaining.data(), static_cast<int64_t>(remaining.size()));
    }
    state_ = moved ? reorder(state, rows.data(), static_cast<int64_t>(rows.size())) : std::move(state);
}

// Let a sentence take the candidates from a row on; returns whether it continues.
bool BeamSearch::advance(SentenceSearch& sentence, std::size_t row, int64_t k, int64_t requested,
                         int64_t* parents) {
    const std::size_t offset = row * static_cast<std::size_t>(k + requested);
    const bool continues = sentence.advance(tokens_.data() + offset, log_probs_.data() + offset, k, requested,
                                            parents);
    if (sentence.streams()) {
        const auto [token, log_prob] = sentence.decided();
        if (token >= 0) decided_.push_back({sentence.number(), token, log_prob});
    }
    return continues;
}

}  // namespace uwaga
