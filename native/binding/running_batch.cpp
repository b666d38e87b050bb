#include "binding/running_batch.h"

#include <nanobind/stl/vector.h>

#include <utility>

#include "runtime/process.h"

namespace uwaga {

PyRunningBatch::PyRunningBatch(std::unique_ptr<RunningBatch> running, std::shared_ptr<Handle> owner,
                               nb::object lists)
    : batch(std::move(running)), handle(std::move(owner)), shortlist(std::move(lists)),
      process(this_process()) {}

PyRunningBatch::~PyRunningBatch() {
    if (process != this_process()) static_cast<void>(batch.release());
}

void make_batch(PyRunningBatch* self, const std::shared_ptr<Handle>& handle, nb::object shortlist) {
    const PyShortlist* lists = shortlist.is_none() ? nullptr : nb::cast<const PyShortlist*>(shortlist);
    check_shortlist(lists, handle);
    new (self)
        PyRunningBatch(std::make_unique<RunningBatch>(handle->model, lists ? &lists->shortlist : nullptr),
                       handle, std::move(shortlist));
}

PyTicket ticket_of(PyRunningBatch& self, const PyLane& lane, bool streams) {
    if (lane.handle->model != self.handle->model) refuse("the lane belongs to another model");
    if (streams && lane.lane->rules.beams != 1) refuse("streams: requires a single beam");
    return {std::make_shared<Ticket>(lane.lane, streams)};
}

void submit_sentences(PyRunningBatch& self, const PyTicket& ticket,
                      const std::vector<std::vector<int64_t>>& sources, Shaped<int64_t, 1> limits,
                      Shaped<int64_t, 1> uncounted, Shaped<int64_t, 2> forced, const nb::list& phrases,
                      const nb::list& drafts, const std::vector<const PyDatastore*>& datastores) {
    const Network& model = self.batch->network();
    std::vector<std::vector<int32_t>> checked = checked_sources(model, sources);
    std::vector<Entry> entries = checked_entries(ticket.ticket->lane->rules, model.target_vocabulary,
                                                 sources.size(), limits, uncounted, forced, phrases, drafts);
    if (!datastores.empty() && datastores.size() != entries.size())
        refuse("datastores: expected one entry per sentence, or none");
    for (std::size_t i = 0; i < datastores.size(); ++i)
        entries[i].datastore = checked_datastore(model, datastores[i]);
    self.batch->submit(ticket.ticket, std::move(checked), std::move(entries));
}

nb::tuple take_updates(PyRunningBatch& self, const PyTicket& ticket, double seconds) {
    TicketResults results;
    {
        const nb::gil_scoped_release free;
        results = self.batch->take(ticket.ticket, seconds);
    }
    if (results.error) std::rethrow_exception(results.error);
    nb::list finished, decided;
    for (const FinishedSentence& sentence : results.finished)
        finished.append(nb::make_tuple(sentence.sentence, as_lists(sentence.hypotheses)));
    for (const DecidedToken& token : results.decided)
        decided.append(nb::make_tuple(token.sentence, token.token, token.log_prob));
    return nb::make_tuple(std::move(finished), std::move(decided));
}

}  // namespace uwaga
