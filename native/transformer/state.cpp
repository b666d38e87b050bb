// States are values: each of these makes another and leaves the first as it was.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "transformer/state.h"

namespace uwaga {

namespace {
constexpr int64_t most_beams = 1 << 16;

// All of a state but its output layer.
State begin(const Memory& memory, int64_t beams) {
    if (beams < 1 || beams > most_beams) throw std::invalid_argument("beams must be from 1 to " + std::to_string(most_beams));
    State state;
    state.model = memory.model;
    state.beams = beams;
    if (!memory.model->has_source()) return start_after(memory.prompts, std::move(state));
    state.sentences.reserve(memory.sentences.size());
    const Model& model = *memory.model;
    for (const EncodedSentence& sentence : memory.sentences) {
        std::shared_ptr<KeyValueStore> store;
        if (!model.shape.recurrent) store = std::make_shared<KeyValueStore>(model.pages, model.key_value_width(), model.cache_element_size());
        state.sentences.push_back({sentence, std::move(store), 0});
    }
    state.cells.resize(static_cast<std::size_t>(state.rows() * model.cells_width()));
    return state;
}

// A state's tables, each row with room for `stride` entries.
std::vector<int64_t> widened(const State& state, int64_t stride) {
    std::vector<int64_t> tables(static_cast<std::size_t>(state.rows() * stride));
    for (int64_t row = 0; row < state.rows(); ++row) {
        std::copy_n(state.tables.data() + row * state.stride, state.stride, tables.data() + row * stride);
    }
    return tables;
}

// The sentences of one state behind another's, without their output layers.
void append(State& state, const State& other) {
    if (state.model != other.model || state.beams != other.beams) throw std::invalid_argument("join: states of different models or beams");
    const int64_t stride = std::max(state.stride, other.stride);
    if (state.stride < stride) state.tables = widened(state, stride);
    state.stride = stride;
    const std::vector<int64_t> more = widened(other, stride);
    state.tables.insert(state.tables.end(), more.begin(), more.end());
    const std::size_t before = state.sentences.size();
    state.sentences.insert(state.sentences.end(), other.sentences.begin(), other.sentences.end());
    state.cells.insert(state.cells.end(), other.cells.begin(), other.cells.end());
    for (std::size_t s = before; s < state.sentences.size(); ++s) state.sentences[s].columns = nullptr;  // of another output layer
}

void gather_all(State& state, GatheredPtr from) {
    gather_extended(state, std::move(from));
    if (mostly_unused(state)) regather(state);
}
}

State start(const Memory& memory, int64_t beams) {
    State state = begin(memory, beams);
    if (memory.common) gather_extended(state, memory.common);
    return state;
}

State reorder(const State& state, const int64_t* rows, int64_t count) {
    if (count != state.rows()) throw std::invalid_argument("reorder: one row is wanted for each row of the state");
    State next{state.model, state.beams, state.sentences, state.stride, {}, state.gathered};
    next.tables.resize(state.tables.size());
    next.cells.resize(state.cells.size());
    const int64_t width = state.model->cells_width();
    for (int64_t row = 0; row < count; ++row) {
        if (rows[row] < 0 || rows[row] >= count || rows[row] / state.beams != row / state.beams) {
            throw std::invalid_argument("reorder: a row must stay within its sentence");
        }
        std::copy_n(state.cells.data() + rows[row] * width, width, next.cells.data() + row * width);
        if (next.tables.empty()) continue;
        const int64_t used = state.sentences[static_cast<std::size_t>(row / state.beams)].position;
        const int64_t* from = state.tables.data() + rows[row] * state.stride;
        std::copy(from, from + used, next.tables.data() + row * state.stride);
    }
    return next;
}

State select(const State& state, const int64_t* sentences, int64_t count) {
    State next{state.model, state.beams, {}, state.stride, {}, state.gathered};
    const int64_t size = static_cast<int64_t>(state.sentences.size()), block = state.beams * state.stride;
    next.sentences.reserve(static_cast<std::size_t>(count));
    next.tables.resize(static_cast<std::size_t>(count * block));
    const int64_t cells = state.beams * state.model->cells_width();
    next.cells.resize(static_cast<std::size_t>(count * cells));
    for (int64_t i = 0; i < count; ++i) {
        if (sentences[i] < 0 || sentences[i] >= size) throw std::invalid_argument("select: there is no such sentence");
        next.sentences.push_back(state.sentences[static_cast<std::size_t>(sentences[i])]);
        const int64_t* from = state.tables.data() + sentences[i] * block;
        std::copy(from, from + block, next.tables.data() + i * block);
        std::copy_n(state.cells.data() + sentences[i] * cells, cells, next.cells.data() + i * cells);
    }
    if (next.gathered && 2 * count <= next.gathered->sentences) regather(next);
    return next;
}

State join(const std::vector<const State*>& states) {
    if (states.empty()) throw std::invalid_argument("join: no states");
    State next = *states[0];
    for (std::size_t i = 1; i < states.size(); ++i) {
        if (!states[i]->gathered != !next.gathered) throw std::invalid_argument("join: a state with a shortlist and one without");
        append(next, *states[i]);
    }
    if (next.gathered) gather_all(next, states[0]->gathered);
    return next;
}

State admit(State state, const Memory& memory) {
    if (!memory.common != !state.gathered) throw std::invalid_argument("join: a state with a shortlist and one without");
    GatheredPtr own = std::exchange(state.gathered, nullptr);
    append(state, begin(memory, state.beams));
    if (own) gather_all(state, std::move(own));
    return state;
}

}  // namespace uwaga
