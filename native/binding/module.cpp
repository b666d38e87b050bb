// The extension module uwaga.engine._core: arrays in, arrays out. All input is checked here.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <thread>
#ifdef __linux__
#include <malloc.h>
#endif

#include "binding/checkpoints.h"
#include "binding/model.h"
#include "binding/rates.h"
#include "binding/record.h"
#include "binding/running_batch.h"
#include "binding/search.h"
#include "binding/step.h"
#include "binding/text.h"
#include "binding/weights.h"
#include "runtime/build.h"

namespace uwaga {

namespace {

// Handles Ctrl-C while the GIL is released: only the main thread handles signals, and it checks for them ten
// times a second.
std::thread::id main_thread;

void check_signals() {
    if (std::this_thread::get_id() != main_thread) return;
    static std::chrono::steady_clock::time_point next;
    const auto now = std::chrono::steady_clock::now();
    if (now < next) return;
    next = now + std::chrono::milliseconds(100);
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// The interface to Python, as in the names of wheels.
#if defined(Py_LIMITED_API)
constexpr const char* python_abi = "abi3";
#else
constexpr const char* python_abi = "cp" NB_TOSTRING(PY_MAJOR_VERSION) NB_TOSTRING(PY_MINOR_VERSION);
#endif

// Return the freed memory that the C library retains to the system.
void trim_heap() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

}  // namespace

NB_MODULE(_core, m) {
    main_thread = std::this_thread::get_id();
    using namespace nb::literals;
    m.attr("ISAS") = nb::make_tuple("portable", "neon", "avx2", "avxvnni", "avx512vnni", "amx", "wasm");
    m.attr("COMMIT") = build_facts.commit;
    m.attr("COMPILER") = build_facts.compiler;
    m.attr("BUILD_TYPE") = build_facts.type;
    m.attr("FLAGS") = build_facts.flags;
    m.attr("COMPILED_ISAS") = build_facts.isas;
    m.attr("ABI") = python_abi;
    nb::exception<TooLong>(m, "TooLongError", PyExc_ValueError);
    nb::exception<NoSuchArray>(m, "NoSuchArrayError", PyExc_ValueError);
    nb::exception<InsightTooLarge>(m, "InsightTooLargeError", PyExc_ValueError);
    nb::exception<EditMismatch>(m, "EditMismatchError", PyExc_ValueError);
    nb::exception<NotNumbers>(m, "NotNumbersError", PyExc_ValueError);
    m.def(
        "supported",
        [](int isa) {
            return isa >= 0 && isa <= static_cast<int>(Isa::wasm) && supported(static_cast<Isa>(isa));
        },
        "isa"_a);
    m.def("best_isa", [] { return static_cast<int>(best_isa()); });
    nb::class_<WeightArena>(m, "WeightArena").def(nb::init<>()).def("take", &unwritten_bytes, "size"_a);
    m.def("pack_int8", &packed_int8, "weight"_a, "levels"_a, "arena"_a.none() = nb::none(),
          "spread"_a = false);
    m.def("pack_int4", &packed_int4, "weight"_a, "arena"_a.none() = nb::none());
    m.def("pack_int8_numbers", &packed_int8_numbers, "numbers"_a, "scales"_a, "outputs"_a,
          "arena"_a.none() = nb::none());
    m.def("trim_heap", &trim_heap);
    m.def("sinusoids", &sinusoids_table, "order"_a, "width"_a, "first"_a, "count"_a);
    m.def("distances", &distances_table, "weight"_a, "reach"_a, "both_ways"_a);
    m.def("pack_bfloat16", &packed_bfloat16, "weight"_a, "arena"_a.none() = nb::none());
    m.def("pack_float", &packed_float, "weight"_a, "arena"_a.none() = nb::none());

    nb::class_<Packed>(m, "Matrix")
        .def_static("int4", &int4_matrix, "outputs"_a, "inputs"_a, "panels"_a, "scales"_a, "sums"_a)
        .def_static("int8", &int8_matrix, "outputs"_a, "inputs"_a, "levels"_a, "panels"_a, "scales"_a,
                    "sums"_a, "spread"_a = false)
        .def_static("bfloat16", &bfloat16_matrix, "outputs"_a, "inputs"_a, "panels"_a)
        .def_static("float32", &float_matrix, "outputs"_a, "inputs"_a, "panels"_a);

    nb::class_<PyDatastore>(m, "Datastore")
        .def("__init__", &make_datastore, "keys"_a, "tokens"_a, "radius"_a, "temperature"_a, "neighbours"_a);

    nb::class_<PyMemory>(m, "Memory")
        .def_prop_ro("sentences", [](const PyMemory& self) { return self.memory.sentences.size(); })
        .def_prop_ro("lengths", &lengths_of)
        .def_prop_ro("encoder",
                     [](const PyMemory& self) { return self.encoder.is_valid() ? self.encoder : nb::none(); })
        .def(
            "used_by",
            [](const PyMemory& self, const std::shared_ptr<Handle>& model) {
                return PyMemory{model->model->adopt(self.memory), model, self.encoder};
            },
            "model"_a)
        .def("with_datastores", &with_datastores, "datastores"_a)
        .def(
            "start",
            [](const PyMemory& self, int64_t beams) {
                return PyState{self.memory.network->start(self.memory, beams), self.handle};
            },
            "beams"_a);

    nb::class_<PyState>(m, "State")
        .def(
            "reorder",
            [](const PyState& self, Shaped<int64_t, 1> rows) {
                return PyState{reorder(self.state, rows.data(), static_cast<int64_t>(rows.shape(0))),
                               self.handle};
            },
            "rows"_a)
        .def(
            "select",
            [](const PyState& self, Shaped<int64_t, 1> sentences) {
                return PyState{select(self.state, sentences.data(), static_cast<int64_t>(sentences.shape(0))),
                               self.handle};
            },
            "sentences"_a)
        .def_static(
            "join",
            [](const std::vector<const PyState*>& states) {
                std::vector<const State*> parts;
                for (const PyState* state : states) {
                    if (!state) refuse("join: None is not a state");
                    parts.push_back(&state->state);
                }
                State joined = join(parts);
                return PyState{std::move(joined), states[0]->handle};
            },
            "states"_a)
        .def("step", &step_state, "tokens"_a, "count"_a, "full_vocabulary"_a = false, "attention"_a = false,
             "renormalise"_a = false, "banned"_a = nb::none(), "forced"_a = nb::none(),
             "uniform"_a = nb::none(), "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0,
             "requested"_a = nb::none(), "counts"_a = nb::none(), "logits"_a = false, "features"_a = false);

    nb::class_<PyShortlist>(m, "Shortlist");
    bind_checkpoints(m);
    bind_text(m);
    bind_rates(m);

    nb::class_<Handle>(m, "Model")
        .def(
            "__init__",
            [](Handle* self, const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors,
               int isa) { new (self) Handle(build(settings, matrices, vectors, isa, &check_signals)); },
            "settings"_a, "matrices"_a, "vectors"_a, "isa"_a)
        .def(
            "edited",
            [](const Handle& self, const nb::list& attention, const std::vector<int32_t>& source_positions,
               const std::vector<int32_t>& target_positions) {
                return edited_model(self, attention, source_positions, target_positions, &check_signals);
            },
            "attention"_a, "source_positions"_a, "target_positions"_a)
        .def_prop_ro("kept_tokens", [](const Handle& self) { return self.model->cached_tokens(); })
        .def_prop_ro("can_verify", [](const Handle& self) { return self.model->can_verify(); })
        .def("shortlist", &shortlist_of, "common"_a, "first"_a, "targets"_a, "copy_source"_a = false,
             "multiple"_a = 1)
        .def("encode", &encode_sources, "sources"_a, "shortlist"_a.none() = nb::none())
        .def("encode_recorded", &encode_recorded_sources, "sources"_a, "shortlist"_a.none() = nb::none())
        .def("insight", &insight_of, "source"_a, "target"_a, "names"_a, "max_bytes"_a)
        .def("attentions", &attentions_of, "memories"_a, "sentences"_a, "targets"_a)
        .def("cross_attention", &cross_attention_of, "memories"_a, "sentences"_a, "targets"_a, "layer"_a,
             "head"_a);

    nb::class_<PyRules>(m, "Rules")
        .def("__init__", &make_rules, "model"_a, "beams"_a, "pool_size"_a, "nbest"_a, "start"_a, "ends"_a,
             "banned"_a, "min_length"_a, "early_stopping"_a, "force_end"_a, "score_forced"_a, "renormalise"_a,
             "divisors"_a, "continues_word"_a);

    nb::class_<PyBeamSearch>(m, "BeamSearch")
        .def("__init__", &make_search, "rules"_a)
        .def_prop_ro("running", &running_of)
        .def("enter", &enter_search, "memory"_a, "limits"_a, "uncounted"_a, "forced"_a,
             "phrases"_a = nb::list(), "streams"_a = false, "drafts"_a = nb::list())
        .def("run", &run_search, "tokens"_a)
        .def("finished", &hypotheses_of)
        .def("decided", &decided_of);

    nb::class_<PyLane>(m, "Lane").def(
        "__init__",
        [](PyLane* self, const PyRules& rules) {
            new (self) PyLane{std::make_shared<Lane>(rules.rules), rules.handle};
        },
        "rules"_a);
    nb::class_<PyTicket>(m, "Ticket");
    nb::class_<PyRunningBatch>(m, "RunningBatch")
        .def("__init__", &make_batch, "model"_a, "shortlist"_a.none() = nb::none())
        .def("ticket", &ticket_of, "lane"_a, "streams"_a = false)
        .def("submit", &submit_sentences, "ticket"_a, "sources"_a, "limits"_a, "uncounted"_a, "forced"_a,
             "phrases"_a = nb::list(), "drafts"_a = nb::list(),
             "datastores"_a = std::vector<const PyDatastore*>{})
        .def("collect", &take_updates, "ticket"_a, "seconds"_a)
        .def(
            "leave", [](PyRunningBatch& self, const PyTicket& ticket) { self.batch->leave(ticket.ticket); },
            "ticket"_a)
        .def(
            "serve", [](PyRunningBatch& self) { self.batch->serve(); },
            nb::call_guard<nb::gil_scoped_release>())
        .def("close", [](PyRunningBatch& self) { self.batch->close(); })
        .def_prop_ro("counters", [](PyRunningBatch& self) {
            const Counters all = self.batch->counters();
            return nb::make_tuple(all.steps, all.rows, all.sentences);
        });
}

}  // namespace uwaga
