// Python interface of the running batch: sentences in, results out. Threads wait with the GIL released.
#pragma once

#include <memory>

#include "binding/search.h"
#include "search/running_batch.h"

namespace uwaga {

// A forked child process must not touch the batch, because threads of its parent may hold the locks.
struct PyRunningBatch {
    PyRunningBatch(std::unique_ptr<RunningBatch> running, std::shared_ptr<Handle> owner, nb::object lists);
    ~PyRunningBatch();
    PyRunningBatch(const PyRunningBatch&) = delete;
    PyRunningBatch& operator=(const PyRunningBatch&) = delete;

    std::unique_ptr<RunningBatch> batch;
    std::shared_ptr<Handle> handle;
    nb::object shortlist;  // read by the batch
    const int process;
};
struct PyLane {
    std::shared_ptr<Lane> lane;
    std::shared_ptr<Handle> handle;
};
struct PyTicket {
    TicketPtr ticket;
};

void make_batch(PyRunningBatch* self, const std::shared_ptr<Handle>& handle, nb::object shortlist);
PyTicket ticket_of(PyRunningBatch& self, const PyLane& lane, bool streams);
void submit_sentences(PyRunningBatch& self, const PyTicket& ticket,
                      const std::vector<std::vector<int64_t>>& sources, Shaped<int64_t, 1> limits,
                      Shaped<int64_t, 1> uncounted, Shaped<int64_t, 2> forced, const nb::list& phrases,
                      const nb::list& drafts, const std::vector<const PyDatastore*>& datastores);
nb::tuple take_updates(PyRunningBatch& self, const PyTicket& ticket, double seconds);

}  // namespace uwaga
