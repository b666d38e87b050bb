// Operations on states. States are values: each operation returns a new one and leaves its arguments
// unchanged.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "network/network.h"

namespace uwaga {

namespace {
constexpr int64_t max_beams = 1 << 16;

// The tables of a state with room for `stride` entries per row.
std::vector<int64_t> widened(const State& state, int64_t stride) {
    std::vector<int64_t> tables(static_cast<std::size_t>(state.rows() * stride));
    for (int64_t row = 0; row < state.rows(); ++row) {
        std::copy_n(state.tables.data() + row * state.stride, state.stride, tables.data() + row * stride);
    }
    return tables;
}

// Append the sentences of another state.
void append(State& state, const State& other) {
    if (state.network != other.network || state.beams != other.beams)
        throw std::invalid_argument("join: states of different models or beam sizes");
    if (!state.sentences.empty() && !other.sentences.empty() &&
        state.has_shortlist() != other.has_shortlist()) {
        throw std::invalid_argument("join: states with and without a shortlist cannot be mixed");
    }
    const int64_t stride = std::max(state.stride, other.stride);
    if (state.stride < stride) state.tables = widened(state, stride);
    state.stride = stride;
    const std::vector<int64_t> appended = widened(other, stride);
    state.tables.insert(state.tables.end(), appended.begin(), appended.end());
    state.sentences.insert(state.sentences.end(), other.sentences.begin(), other.sentences.end());
    state.cells.insert(state.cells.end(), other.cells.begin(), other.cells.end());
}

}  // namespace

TooLong too_long(const Network& network, int64_t positions) {
    if (network.has_source()) return TooLong("a target is longer than the model can generate");
    return TooLong("prompt and continuation take " + std::to_string(positions) +
                   " positions, but the model has " + std::to_string(network.max_length) +
                   ": shorten the prompt or lower max_length");
}

State empty_state(const Memory& memory, int64_t beams) {
    if (beams < 1 || beams > max_beams)
        throw std::invalid_argument("beams must be from 1 to " + std::to_string(max_beams));
    State state;
    state.network = memory.network;
    state.beams = beams;
    state.sentences.reserve(memory.sentences.size());
    return state;
}

State at_next_position(const State& state) {
    const Network& network = *state.network;
    State next{state.network, state.beams, state.sentences, state.stride, {}};
    for (State::Sentence& sentence : next.sentences) {
        if (sentence.position >= network.max_length) throw too_long(network, sentence.position + 1);
        ++sentence.position;
        sentence.prompt_token = -1;
    }
    next.cells.resize(state.cells.size());
    return next;
}

State reorder(const State& state, const int64_t* rows, int64_t count) {
    if (count != state.rows()) throw std::invalid_argument("reorder: expected one row per row of the state");
    State next{state.network, state.beams, state.sentences, state.stride, {}};
    next.tables.resize(state.tables.size());
    next.cells.resize(state.cells.size());
    const int64_t width = state.network->cells;
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
    State next{state.network, state.beams, {}, state.stride, {}};
    const int64_t size = static_cast<int64_t>(state.sentences.size()), block = state.beams * state.stride;
    next.sentences.reserve(static_cast<std::size_t>(count));
    next.tables.resize(static_cast<std::size_t>(count * block));
    const int64_t cells = state.beams * state.network->cells;
    next.cells.resize(static_cast<std::size_t>(count * cells));
    for (int64_t i = 0; i < count; ++i) {
        if (sentences[i] < 0 || sentences[i] >= size) throw std::invalid_argument("select: no such sentence");
        next.sentences.push_back(state.sentences[static_cast<std::size_t>(sentences[i])]);
        const int64_t* from = state.tables.data() + sentences[i] * block;
        std::copy(from, from + block, next.tables.data() + i * block);
        std::copy_n(state.cells.data() + sentences[i] * cells, cells, next.cells.data() + i * cells);
    }
    return next;
}

State join(const std::vector<const State*>& states) {
    if (states.empty()) throw std::invalid_argument("join: expected at least one state");
    State next = *states[0];
    for (std::size_t i = 1; i < states.size(); ++i) append(next, *states[i]);
    return next;
}

State admit(State state, const Memory& memory) {
    append(state, state.network->start(memory, state.beams));
    return state;
}

void feed_last_prompt_tokens(const State& state, int32_t* tokens, const int64_t* first) {
    for (int64_t row = 0; row < state.rows(); ++row) {
        const int32_t last = state.sentences[static_cast<std::size_t>(row / state.beams)].prompt_token;
        if (last >= 0) tokens[first ? first[row] : row] = last;
    }
}

}  // namespace uwaga
