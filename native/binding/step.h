// Python interface of the model: sources in, memories, states and candidates out.
#pragma once

#include <optional>
#include <vector>

#include "binding/model.h"
#include "output/shortlist.h"

namespace uwaga {

// A memory or state keeps its handle, and so the arrays, alive.
struct PyMemory {
    Memory memory;
    std::shared_ptr<Handle> handle;
    nb::object encoder = {};  // list of each sentence's matrices if recorded, otherwise null
};
struct PyState {
    State state;
    std::shared_ptr<Handle> handle;
};
struct PyDatastore {
    DatastorePtr datastore;
};
struct PyShortlist {
    Shortlist shortlist;
    std::shared_ptr<Handle> handle;
    Shaped<int32_t, 1> first, targets;  // read by the shortlist; several MB, not copied
};

PyShortlist shortlist_of(const std::shared_ptr<Handle>& handle, Shaped<int32_t, 1> common,
                         Shaped<int32_t, 1> first, Shaped<int32_t, 1> targets, bool copy_source,
                         int64_t multiple);
int32_t checked_token(int64_t token, int64_t vocabulary, const char* name = nullptr);
void check_shortlist(const PyShortlist* shortlist, const std::shared_ptr<Handle>& handle);
std::vector<std::vector<int32_t>> checked_sources(const Network& model,
                                                  const std::vector<std::vector<int64_t>>& sources);
PyMemory encode_sources(const std::shared_ptr<Handle>& handle,
                        const std::vector<std::vector<int64_t>>& sources, const PyShortlist* shortlist);
void make_datastore(PyDatastore* self, Shaped<float, 2> keys, Shaped<int64_t, 1> tokens, double radius,
                    double temperature, int64_t neighbours);
DatastorePtr checked_datastore(const Network& network, const PyDatastore* self);
PyMemory with_datastores(const PyMemory& self, const std::vector<const PyDatastore*>& datastores);
nb::object lengths_of(const PyMemory& self);
nb::tuple step_state(const PyState& self, Shaped<int64_t, 1> tokens, int64_t count, bool full_vocabulary,
                     bool attention, bool renormalise, std::optional<Shaped<int64_t, 2>> banned,
                     std::optional<Shaped<int64_t, 1>> forced, std::optional<Shaped<double, 1>> uniform,
                     double temperature, int64_t top_k, double top_p,
                     std::optional<Shaped<int64_t, 2>> requested, std::optional<Shaped<int64_t, 1>> fed,
                     bool logits, bool features);

}  // namespace uwaga
