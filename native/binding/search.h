// Python interface of beam search: sentences in, hypotheses out.
#pragma once

#include <memory>
#include <mutex>

#include "binding/step.h"
#include "search/beam_search.h"

namespace uwaga {

// Unlike a state it is mutable: one thread at a time uses it. After a failure it cannot be used again.
struct PyBeamSearch {
    std::unique_ptr<BeamSearch> search;
    std::shared_ptr<Handle> handle;
    std::mutex mutex = {};
    bool failed = false;
    std::vector<std::vector<Hypothesis>> hypotheses = {};  // by order of entry; empty while a sentence is
                                                           // being decoded
};

// The rules of a search, checked against their model.
struct PyRules {
    BeamRules rules;
    std::shared_ptr<Handle> handle;
};

void make_rules(PyRules* self, const std::shared_ptr<Handle>& handle, int64_t beams, int64_t pool_size,
                int64_t nbest, int64_t start, Shaped<int64_t, 1> ends, Shaped<int64_t, 1> banned,
                int64_t min_length, int early_stopping, bool force_end, bool score_forced, bool renormalise,
                Shaped<double, 1> divisors, Shaped<uint8_t, 1> continues_word);
// Check the inputs of sentences, one of each per sentence.
std::vector<Entry> checked_entries(const BeamRules& rules, int64_t vocabulary, std::size_t sentences,
                                   const Shaped<int64_t, 1>& limits, const Shaped<int64_t, 1>& uncounted,
                                   const Shaped<int64_t, 2>& forced, const nb::list& phrases,
                                   const nb::list& drafts);
nb::list as_lists(const std::vector<Hypothesis>& nbest);

void make_search(PyBeamSearch* self, const PyRules& rules);
void enter_search(PyBeamSearch& self, const PyMemory& memory, Shaped<int64_t, 1> limits,
                  Shaped<int64_t, 1> uncounted, Shaped<int64_t, 2> forced, const nb::list& phrases,
                  bool streams, const nb::list& drafts);
void run_search(PyBeamSearch& self, int64_t tokens);
nb::object running_of(PyBeamSearch& self);
nb::list hypotheses_of(PyBeamSearch& self);
nb::list decided_of(PyBeamSearch& self);

}  // namespace uwaga
