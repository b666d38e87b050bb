// What Python does with a beam search: sentences in, hypotheses out.
#pragma once

#include <memory>
#include <mutex>

#include "binding/step.h"
#include "search/beam_search.h"

namespace uwaga {

// Unlike a state it changes: one thread at a time has it. What has failed once is not gone on with.
struct PyBeamSearch {
    std::unique_ptr<BeamSearch> search;
    std::shared_ptr<Handle> handle;
    std::mutex mutex = {};
    bool failed = false;
    std::vector<std::vector<FoundHypothesis>> found = {};  // by order of entry; empty for one that is being decoded
};

// The rules of a search, checked against the model they are for.
struct PyRules {
    BeamRules rules;
    std::shared_ptr<Handle> handle;
};

void make_rules(PyRules* self, const std::shared_ptr<Handle>& handle, int64_t beams, int64_t enough, int64_t nbest, int64_t start, int64_t end,
                Shaped<int64_t, 1> never, int64_t min_length, int stopping, bool force_end, bool score_forced, bool renormalise,
                Shaped<double, 1> divisors, Shaped<uint8_t, 1> inside);
// What sentences enter with, checked: one of each for a sentence.
std::vector<Entry> checked_entries(const BeamRules& rules, int64_t vocabulary, std::size_t sentences, const Shaped<int64_t, 1>& limits,
                                   const Shaped<int64_t, 1>& uncounted, const Shaped<int64_t, 2>& forced, const nb::list& phrases);
nb::list as_lists(const std::vector<FoundHypothesis>& nbest);

void make_search(PyBeamSearch* self, const PyRules& rules);
void enter_search(PyBeamSearch& self, const PyMemory& memory, Shaped<int64_t, 1> limits, Shaped<int64_t, 1> uncounted, Shaped<int64_t, 2> forced,
                  const nb::list& phrases, bool streams);
void run_search(PyBeamSearch& self, int64_t tokens);
nb::object running_of(PyBeamSearch& self);
nb::list found_of(PyBeamSearch& self);
nb::list decided_of(PyBeamSearch& self);

}  // namespace uwaga
