#include "binding/search.h"
#include "binding/step.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace uwaga {

namespace {

constexpr int64_t max_beams = 1 << 16;

// Read and check one of the tables of a sentence's phrases.
template <class T>
std::vector<T> table(const nb::tuple& tables, std::size_t index, std::size_t size, int64_t min, int64_t max) {
    const Shaped<int64_t, 1> values = nb::cast<Shaped<int64_t, 1>>(tables[index]);
    if (size && values.size() != size) refuse("phrases: the sizes of the tables do not match");
    std::vector<T> converted(values.size());
    for (std::size_t i = 0; i < converted.size(); ++i) {
        if (values.data()[i] < min || values.data()[i] > max) refuse("phrases: number out of range");
        converted[i] = static_cast<T>(values.data()[i]);
    }
    return converted;
}

// Phrases from the tables of uwaga.search.phrases.Phrases.tables.
PhrasesPtr checked_phrases(const nb::tuple& tables, int64_t vocabulary) {
    constexpr int64_t max_number = 1 << 30;
    if (tables.size() != 10) refuse("phrases: expected ten tables");
    auto phrases = std::make_shared<Phrases>();
    Phrases& p = *phrases;
    p.sizes = table<int64_t>(tables, 0, 0, 1, max_number);
    const std::size_t count = p.sizes.size();
    if (!count) refuse("phrases: at least one phrase is required");
    p.count = static_cast<int64_t>(count);
    p.times = table<int64_t>(tables, 1, count, 1, max_number);
    p.whole_words = table<uint8_t>(tables, 2, count, 0, 1);
    p.tokens = table<int32_t>(tables, 3, 0, 0, vocabulary - 1);
    const std::size_t edges = p.tokens.size();
    p.first = table<int64_t>(tables, 4, 0, 0, static_cast<int64_t>(edges));
    if (p.first.size() < 2 || p.first.front() != 0 || p.first.back() != static_cast<int64_t>(edges) ||
        !std::is_sorted(p.first.begin(), p.first.end()))
        refuse("phrases: invalid offsets");
    const std::size_t nodes = p.first.size() - 1;
    p.targets = table<int32_t>(tables, 5, edges, 0, static_cast<int64_t>(nodes) - 1);
    p.serves = table<uint8_t>(tables, 6, edges * count, 0, 1);
    p.ends = table<uint8_t>(tables, 7, nodes * count, 0, 1);
    p.progress = table<int32_t>(tables, 8, nodes * count, 0, max_number);
    for (std::size_t c = 0; c < count; ++c) p.total += p.sizes[c] * p.times[c];
    p.bonus = nb::cast<double>(tables[9]);
    if (std::isnan(p.bonus) || std::isinf(p.bonus)) refuse("phrases: the bonus must be finite");
    return phrases;
}

// Run `work` with exclusive access to the search and the GIL released.
template <class Work>
auto exclusively(PyBeamSearch& self, const Work& work) {
    const nb::gil_scoped_release free;
    const std::lock_guard<std::mutex> lock(self.mutex);
    if (self.failed) refuse("a search that has failed cannot be used again");
    self.failed = true;
    auto result = work(*self.search);
    self.failed = false;
    return result;
}

}  // namespace

void make_rules(PyRules* self, const std::shared_ptr<Handle>& handle, int64_t beams, int64_t pool_size,
                int64_t nbest, int64_t start, Shaped<int64_t, 1> ends, Shaped<int64_t, 1> banned,
                int64_t min_length, int early_stopping, bool force_end, bool score_forced, bool renormalise,
                Shaped<double, 1> divisors, Shaped<uint8_t, 1> continues_word) {
    const int64_t vocabulary = handle->model->target_vocabulary;
    if (beams < 1 || beams > max_beams || pool_size < 1 || pool_size > beams || nbest < 1 ||
        nbest > pool_size)
        refuse("beams, pool_size or nbest: out of range");
    if (early_stopping < 0 || early_stopping > static_cast<int>(Stopping::estimate))
        refuse("early_stopping: unknown value");
    BeamRules rules;
    rules.beams = beams;
    rules.pool_size = pool_size;
    rules.nbest = nbest;
    rules.start = checked_token(start, vocabulary, "start");
    if (!ends.size()) refuse("ends: at least the end symbol is required");
    rules.end = checked_token(ends.data()[0], vocabulary, "ends");
    for (std::size_t i = 1; i < ends.size(); ++i)
        rules.other_ends.push_back(checked_token(ends.data()[i], vocabulary, "ends"));
    for (std::size_t i = 0; i < banned.size(); ++i) {
        const int32_t token = checked_token(banned.data()[i], vocabulary, "banned");
        if (rules.ends(token) || (i && token <= rules.banned.back()))
            refuse("banned: the tokens must be ascending and exclude the end symbols");
        rules.banned.push_back(token);
    }
    rules.min_length = min_length;
    rules.early_stopping = static_cast<Stopping>(early_stopping);
    rules.force_end = force_end;
    rules.score_forced = score_forced;
    rules.renormalise = renormalise;
    rules.divisors.assign(divisors.data(), divisors.data() + divisors.size());
    for (const double divisor : rules.divisors) {
        if (!(divisor > 0) || std::isinf(divisor)) refuse("divisors: must be positive and finite");
    }
    if (continues_word.size() && static_cast<int64_t>(continues_word.size()) != vocabulary)
        refuse("continues_word: expected one value per token");
    rules.continues_word.assign(continues_word.data(), continues_word.data() + continues_word.size());
    new (self) PyRules{std::move(rules), handle};
}

void make_search(PyBeamSearch* self, const PyRules& rules) {
    new (self) PyBeamSearch{std::make_unique<BeamSearch>(rules.handle->model, rules.rules), rules.handle};
}

std::vector<Entry> checked_entries(const BeamRules& rules, int64_t vocabulary, std::size_t sentences,
                                   const Shaped<int64_t, 1>& limits, const Shaped<int64_t, 1>& uncounted,
                                   const Shaped<int64_t, 2>& forced, const nb::list& phrases,
                                   const nb::list& drafts) {
    const std::size_t width = forced.shape(1);
    if (limits.size() != sentences || uncounted.size() != sentences || forced.shape(0) != sentences)
        refuse("limits, uncounted, forced: expected one of each per sentence");
    if (phrases.size() != 0 && phrases.size() != sentences)
        refuse("phrases: expected one entry per sentence, or none");
    if (drafts.size() != 0 && drafts.size() != sentences)
        refuse("drafts: expected one entry per sentence, or none");
    std::vector<Entry> entries(sentences);
    for (std::size_t i = 0; i < sentences; ++i) {
        Entry& entry = entries[i];
        entry.limit = limits.data()[i];
        entry.uncounted = uncounted.data()[i];
        if (entry.limit < 1 || entry.limit + 2 > static_cast<int64_t>(rules.divisors.size()))
            refuse("limits: out of range for the given divisors");
        if (entry.uncounted < 0 || entry.uncounted > entry.limit) refuse("uncounted: out of range");
        entry.forced.assign(forced.data() + i * width, forced.data() + (i + 1) * width);
        for (const int64_t token : entry.forced) {
            if (token != -1) checked_token(token, vocabulary, "forced");
        }
        if (drafts.size() && !drafts[i].is_none()) {
            const auto [tokens, bias, favoured_tokens] =
                nb::cast<std::tuple<std::vector<int64_t>, double, std::optional<int64_t>>>(drafts[i]);
            for (const int64_t token : tokens)
                entry.draft.push_back(checked_token(token, vocabulary, "drafts"));
            if (!(bias >= 0 && bias < 0.5)) refuse("drafts: the bias must be from 0 to below 0.5");
            entry.bias = bias;
            entry.favoured_tokens = favoured_tokens.value_or(static_cast<int64_t>(tokens.size()));
        }
        if (phrases.size() && !phrases[i].is_none())
            entry.phrases = checked_phrases(nb::cast<nb::tuple>(phrases[i]), vocabulary);
    }
    return entries;
}

void enter_search(PyBeamSearch& self, const PyMemory& memory, Shaped<int64_t, 1> limits,
                  Shaped<int64_t, 1> uncounted, Shaped<int64_t, 2> forced, const nb::list& phrases,
                  bool streams, const nb::list& drafts) {
    if (memory.handle->model != self.handle->model) refuse("the memory belongs to another model");
    const std::size_t sentences = memory.memory.sentences.size();
    std::vector<Entry> entries = checked_entries(self.search->rules(), self.handle->model->target_vocabulary,
                                                 sentences, limits, uncounted, forced, phrases, drafts);
    for (Entry& entry : entries) entry.streams = streams;
    self.hypotheses.resize(self.hypotheses.size() + sentences);
    exclusively(self, [&](BeamSearch& search) { return search.enter(memory.memory, std::move(entries)); });
}

void run_search(PyBeamSearch& self, int64_t tokens) {
    exclusively(self, [&](BeamSearch& search) {
        if (!search.running().empty()) search.run(tokens);
        return true;
    });
}

nb::object running_of(PyBeamSearch& self) {
    const std::vector<int64_t> numbers = exclusively(self, [](BeamSearch& search) {
        std::vector<int64_t> numbers_running;
        for (const SentenceSearch& sentence : search.running()) numbers_running.push_back(sentence.number());
        return numbers_running;
    });
    Buffer<int64_t> buffer = allocate<int64_t>(static_cast<int64_t>(numbers.size()));
    std::copy(numbers.begin(), numbers.end(), buffer.get());
    return owned(std::move(buffer), {numbers.size()});
}

nb::list as_lists(const std::vector<Hypothesis>& nbest) {
    nb::list hypotheses;
    for (const Hypothesis& hypothesis : nbest)
        hypotheses.append(nb::make_tuple(nb::cast(hypothesis.tokens), nb::cast(hypothesis.log_probs),
                                         hypothesis.score, hypothesis.truncated,
                                         nb::make_tuple(hypothesis.draft.proposed, hypothesis.draft.accepted,
                                                        hypothesis.draft.passes)));
    return hypotheses;
}

nb::list hypotheses_of(PyBeamSearch& self) {
    for (FinishedSentence& sentence :
         exclusively(self, [](BeamSearch& search) { return search.take_finished(); }))
        self.hypotheses[static_cast<std::size_t>(sentence.sentence)] = std::move(sentence.hypotheses);
    nb::list sentences;
    for (const std::vector<Hypothesis>& nbest : self.hypotheses) sentences.append(as_lists(nbest));
    return sentences;
}

nb::list decided_of(PyBeamSearch& self) {
    nb::list tokens;
    for (const DecidedToken& token :
         exclusively(self, [](BeamSearch& search) { return search.take_decided(); }))
        tokens.append(nb::make_tuple(token.sentence, token.token, token.log_prob));
    return tokens;
}

}  // namespace uwaga
