// The decoder: one time step of rows that may belong to different sentences, for searches and for known
// targets.
#include <algorithm>
#include <numeric>

#include "network/distinct_rows.h"
#include "output/choose.h"
#include "recurrent/unit.h"

namespace uwaga {

namespace {

constexpr int64_t min_rows_per_thread = 8;  // minimum per thread: with fewer, two threads would read all
                                            // weights for little
constexpr std::size_t recorded_group = 64;  // sentences whose targets are read together

// The rows of a step. Each has a line of inputs: the state for the read-out, the word's vector, and the
// context read with it.
struct RecurrentStep {
    const RecurrentNetwork& net;
    Workspace& ws;
    int64_t cells = 0;              // per row
    const float* before = nullptr;  // (rows, cells)
    float* after = nullptr;
    std::vector<const EncodedSentence*> sources = {};
    std::vector<int64_t> positions = {};  // numbers of earlier inputs
    std::vector<float*> weights = {};  // where the attention weights go, one per source token; null: nowhere
    FloatRows lines{nullptr, 0}, words{nullptr, 0};  // words: the lines without the state
    FloatRows joined{nullptr, 0};                    // (rows, context and units)

    int64_t rows() const { return static_cast<int64_t>(sources.size()); }
    const EncodedSentence& source(int64_t row) const { return *sources[static_cast<std::size_t>(row)]; }

    // Compute `after`, and features (rows, stride_of(their width)) unless that is null.
    void run(const int32_t* tokens, float* features);
    void copy(const float* from, int64_t stride, int64_t width, const FloatRows& to, int64_t column);
    void run_unit(std::size_t layer, const FloatRows& x, const float* states, int64_t offset);
    void attend(const float* queries, int64_t stride, const FloatRows& context, int64_t column);
    void attend_row(int64_t row, const float* query, const float* projected, const float* window,
                    float* context);
    void run_cho();
    void run_bahdanau();
    void run_stack();
    void run_luong(float* features);
    void run_gnmt(float* features);
};

void RecurrentStep::copy(const float* from, int64_t stride, int64_t width, const FloatRows& to,
                         int64_t column) {
    for (int64_t row = 0; row < rows(); ++row) std::copy_n(from + row * stride, width, to.row(row) + column);
}

// Advance a layer, whose state is at `offset` of the cells, from `states` (rows, cells) and inputs x.
void RecurrentStep::run_unit(std::size_t layer, const FloatRows& x, const float* states, int64_t offset) {
    const Unit& unit = net.decoder[layer];
    const int64_t stride = stride_of(unit.gates());
    const FloatRows projected{ws.projected.ensure(rows() * stride), stride};
    project(net, unit.inputs, x.data, rows(), x.stride, Activation::none, projected, ws);
    advance(net, unit, projected, states + offset, cells, {after + offset, cells}, rows(), ws);
}

void RecurrentStep::attend_row(int64_t row, const float* query, const float* projected, const float* window,
                               float* context) {
    const Kernels& kernels = *net.kernels;
    const ScoreWeights& score = net.score;
    const int64_t length = source(row).length, entry = net.entry_size();
    const float* values = reinterpret_cast<const float*>(source(row).chunk->page.data) +
                          source(row).first * entry;
    const float* gain = nullptr;
    float* const recorded = weights.empty() ? nullptr : weights[static_cast<std::size_t>(row)];
    float* const scores = recorded ? recorded : ws.weights.ensure(length);
    int64_t range[2] = {0, length};
    if (net.locality == Locality::monotonic) {
        const int64_t centre = std::min(positions[static_cast<std::size_t>(row)], length - 1);
        range[0] = std::max<int64_t>(0, centre - net.reach);
        range[1] = std::min(length, centre + net.reach + 1);
    } else if (net.locality == Locality::predictive) {
        float* gains = ws.bias.ensure(length);
        kernels.predict_window(window, net.window_vector, net.units, length, net.reach, range, gains);
        gain = gains + range[0];
    }
    std::fill(scores, scores + range[0], 0.0f);
    std::fill(scores + range[1], scores + length, 0.0f);
    const int64_t from = range[0], count = range[1] - from;
    const float* keys = values + from * entry + (net.prepared ? net.values : 0);
    if (score.kind == Score::location) std::copy_n(projected + from, count, scores + from);
    else if (score.kind == Score::dot)
        kernels.score_dot(query, keys, entry, count, net.units, score.scale, scores + from);
    else kernels.score_additive(projected, score.vector, keys, entry, count, net.units, scores + from);
    kernels.weigh_values(scores + from, gain, values + from * entry, entry, count, net.values, context);
}

// Write the contexts of queries (rows, stride) from a column on.
void RecurrentStep::attend(const float* queries, int64_t stride, const FloatRows& context, int64_t column) {
    FloatRows projected{nullptr, 0}, window{nullptr, 0};
    if (net.score.query) {
        const int64_t width = stride_of(net.score.query.outputs());
        projected = {ws.gate.ensure(rows() * width), width};
        project(net, {net.score.query, nullptr}, queries, rows(), stride, Activation::none, projected, ws);
    }
    if (net.locality == Locality::predictive) {
        window = {ws.hidden.ensure(rows() * stride_of(net.units)), stride_of(net.units)};
        project(net, {net.window, nullptr}, queries, rows(), stride, Activation::tanh, window, ws);
    }
    for (int64_t row = 0; row < rows(); ++row)
        attend_row(row, queries + row * stride, projected.row(row), window.row(row),
                   context.row(row) + column);
}

// The contributions of c to the gates, which are the same at every step, are in the memory.
void RecurrentStep::run_cho() {
    const Unit& unit = net.decoder[0];
    const int64_t units = net.units, stride = stride_of(unit.gates());
    const FloatRows projected{ws.projected.ensure(rows() * stride), stride},
        states{ws.gate.ensure(rows() * stride), stride};
    project(net, unit.inputs, words.data, rows(), words.stride, Activation::none, projected, ws);
    project(net, unit.states, before, rows(), cells, Activation::none, states, ws);
    for (int64_t row = 0; row < rows(); ++row) {
        const float* summary = net.initial_cells(source(row)) + units;
        const float* gate_summary = summary + units;
        float *p = projected.row(row), *s = states.row(row);
        for (int64_t k = 0; k < 2 * units; ++k) p[k] += gate_summary[k];
        float* candidate = (net.summary_under_reset ? s : p) + 2 * units;
        for (int64_t k = 0; k < units; ++k) candidate[k] += gate_summary[2 * units + k];
        net.kernels->gate(p, s, s + 2 * units, units, s + 2 * units);
        net.kernels->gru(p + units, s + units, p + 2 * units, s + 2 * units, before + row * cells, units,
                         after + row * cells);
        std::copy_n(summary, units, words.row(row) + net.embedding);
    }
    copy(after, cells, units, lines, 0);
}

void RecurrentStep::run_bahdanau() {
    if (net.conditional) {
        run_unit(0, words, before, 0);
        attend(after, cells, words, net.embedding);
        run_unit(1, {words.data + net.embedding, words.stride}, after, 0);
    } else {
        attend(before, cells, words, net.embedding);
        run_unit(0, words, before, 0);
    }
    copy(after, cells, net.units, lines, 0);
}

// A stack of LSTMs over the words, whose states follow the fed feature vector.
void RecurrentStep::run_stack() {
    FloatRows x = words;
    int64_t offset = net.input_feeding ? net.units : 0;
    for (std::size_t layer = 0; layer < net.decoder.size(); ++layer) {
        run_unit(layer, x, before, offset);
        x = {after + offset, cells};
        offset += net.decoder[layer].state_width();
    }
}

void RecurrentStep::run_luong(float* features) {
    const int64_t units = net.units, top = cells - 2 * units, stride = stride_of(units);
    if (net.input_feeding) copy(before, cells, units, words, net.embedding);
    run_stack();
    attend(after + top, cells, joined, 0);
    copy(after + top, cells, units, joined, net.values);
    if (!features) features = ws.x.ensure(rows() * stride);
    project(net, net.combine, joined.data, rows(), joined.stride, Activation::tanh, {features, stride}, ws);
    if (net.input_feeding) copy(features, stride, units, {after, cells}, 0);
}

// Every layer reads the context; from the third on, a layer's input is added to its output.
void RecurrentStep::run_gnmt(float* features) {
    const int64_t units = net.units;
    attend(before, cells, words, net.embedding);
    run_unit(0, words, before, 0);
    copy(words.data + net.embedding, words.stride, net.values, joined, units);
    copy(after, cells, units, joined, 0);
    for (std::size_t layer = 1; layer < net.decoder.size(); ++layer) {
        const int64_t offset = static_cast<int64_t>(layer) * 2 * units;
        run_unit(layer, joined, before, offset);
        for (int64_t row = 0; row < rows(); ++row) {
            const float* output = after + row * cells + offset;
            float* x = joined.row(row);
            for (int64_t k = 0; k < units; ++k) x[k] = layer > 1 ? output[k] + x[k] : output[k];
        }
    }
    if (features) copy(joined.data, joined.stride, units, {features, stride_of(units)}, 0);
}

void RecurrentStep::run(const int32_t* tokens, float* features) {
    const int64_t extra_width = net.family == Family::cho || net.input_feeding ? net.units
                                : net.family == Family::luong                  ? 0
                                                                               : net.values;
    const int64_t state_width = net.read_out.weight ? net.units : 0,
                  width = state_width + net.embedding + extra_width, stride = stride_of(width);
    lines = {ws.normed.ensure(rows() * stride), stride};
    words = {lines.data + state_width, stride};
    const int64_t joined_stride = stride_of(net.values + net.units);
    joined = {ws.features.ensure(rows() * joined_stride), joined_stride};
    embed(*net.kernels, net.target_embedding, tokens, rows(), 1.0f, words.data, stride);
    switch (net.family) {
        case Family::cho: run_cho(); break;
        case Family::bahdanau: run_bahdanau(); break;
        case Family::luong: return run_luong(features);
        case Family::gnmt: return run_gnmt(features);
        case Family::sutskever:
            run_stack();
            if (features)
                copy(after + cells - 2 * net.units, cells, net.units, {features, stride_of(net.units)}, 0);
            return;
    }
    if (!features) return;
    const int64_t pairs = net.width, pairs_stride = stride_of(2 * pairs);
    const FloatRows inner{ws.projected.ensure(rows() * pairs_stride), pairs_stride},
        out{features, stride_of(pairs)};
    project(net, net.read_out, lines.data, rows(), stride, Activation::none, inner, ws);
    for (int64_t row = 0; row < rows(); ++row) {  // maxout (Goodfellow et al. 2013)
        const float* x = inner.row(row);
        for (int64_t k = 0; k < pairs; ++k)
            out.row(row)[k] = x[2 * k] > x[2 * k + 1] ? x[2 * k] : x[2 * k + 1];
    }
}

// The computed rows of a state's step.
struct ComputedRows {
    const RecurrentNetwork& net;
    const State& state;
    State& next;
    const StepInput& input;

    int64_t state_row(int64_t row) const {
        return row == input.rows ? state.rows() : input.numbers ? input.numbers[row] : row;
    }
    void run(int64_t first, int64_t last) const;
};

// Compute rows [first, last).
void ComputedRows::run(int64_t first, int64_t last) const {
    WorkspacePool::Loan ws(net.workspaces);
    const Answer& answer = input.answer;
    const int64_t cells = net.cells, rows = last - first, stride = stride_of(net.width);
    RecurrentStep step{net, *ws, cells, state.cells.data() + first * cells,
                       next.cells.data() + first * cells};
    std::vector<float> before, after;
    if (input.numbers) {
        for (int64_t row = first; row < last; ++row) {
            const auto from = state.cells.begin() + state_row(row) * cells;
            before.insert(before.end(), from, from + cells);
        }
        after.resize(before.size());
        step.before = before.data();
        step.after = after.data();
    }
    for (int64_t row = first; row < last; ++row) {
        const State::Sentence& sentence =
            state.sentences[static_cast<std::size_t>(state_row(row) / state.beams)];
        step.sources.push_back(&sentence.memory);
        step.positions.push_back(sentence.position);
        if (!answer.attention) continue;
        float* const to = answer.attention + row * answer.attention_width;
        std::fill(to + sentence.memory.length, to + answer.attention_width, 0.0f);
        step.weights.push_back(to);
    }
    float* const features = (*ws).x.ensure(rows * stride);
    step.run(input.tokens + first, features);
    for (int64_t row = first; input.numbers && row < last; ++row) {  // the rows up to the next computed one
                                                                     // are equal
        for (int64_t to = state_row(row); to < state_row(row + 1); ++to)
            std::copy_n(step.after + (row - first) * cells, cells, next.cells.data() + to * cells);
    }
    Rows in = rows_of(*ws, features, rows, net.width, stride);
    choose(net, in, first, input.request, answer, next, *ws, *ws, ThreadSlice{});
}

// Targets [first, last), whose rows take each step together, the longest first.
void record_targets(const RecurrentNetwork& net, const std::vector<DecoderInput>& inputs,
                    const std::vector<AttentionMatrices>& to, std::size_t first, std::size_t last) {
    WorkspacePool::Loan ws(net.workspaces);
    const int64_t cells = net.cells;
    std::vector<std::size_t> order(last - first);
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return inputs[a].target.size() > inputs[b].target.size();
    });
    std::vector<float> before, after;
    for (const std::size_t s : order) {
        const float* from = net.initial_cells(*inputs[s].source);
        before.insert(before.end(), from, from + cells);
    }
    after.resize(before.size());
    for (std::size_t t = 0; t < inputs[order.front()].target.size(); ++t) {
        net.workers.check();
        RecurrentStep step{net, *ws, cells, before.data(), after.data()};
        std::vector<int32_t> tokens;
        for (const std::size_t s : order) {
            if (inputs[s].target.size() <= t) break;
            tokens.push_back(inputs[s].target[t]);
            step.sources.push_back(inputs[s].source);
            step.positions.push_back(static_cast<int64_t>(t));
            step.weights.push_back(to[s].cross + static_cast<int64_t>(t) * inputs[s].source->length);
        }
        step.run(tokens.data(), nullptr);
        before.swap(after);
    }
}

}  // namespace

State RecurrentNetwork::start(const Memory& memory, int64_t beams) const {
    State state = empty_state(memory, beams);
    for (const EncodedSentence& sentence : memory.sentences) state.sentences.push_back({sentence, nullptr});
    state.cells.resize(static_cast<std::size_t>(state.rows() * cells));
    for (int64_t row = 0; row < state.rows(); ++row) {
        std::copy_n(initial_cells(memory.sentences[static_cast<std::size_t>(row / beams)]), cells,
                    state.cells.data() + row * cells);
    }
    return state;
}

State RecurrentNetwork::step(const State& state, const int32_t* tokens, const Request& request,
                             const Answer& answer) const {
    const DistinctRows distinct(state, tokens, request, answer, true);
    State next = at_next_position(state);
    const StepInput input = distinct.input();
    const ComputedRows computed{*this, state, next, input};
    const int64_t rows = input.rows,
                  parts = std::max<int64_t>(1, std::min(workers.threads(), rows / min_rows_per_thread));
    workers.run(parts, [&](int64_t part) { computed.run(rows * part / parts, rows * (part + 1) / parts); });
    distinct.spread();
    return next;
}

void RecurrentNetwork::record(const std::vector<DecoderInput>& inputs,
                              const std::vector<AttentionMatrices>& to,
                              const std::optional<CrossHead>&) const {
    if (!attends()) return;
    const std::size_t count = inputs.size(), groups = (count + recorded_group - 1) / recorded_group;
    workers.run(static_cast<int64_t>(groups), [&](int64_t part) {
        const std::size_t group = static_cast<std::size_t>(part);
        record_targets(*this, inputs, to, count * group / groups, count * (group + 1) / groups);
    });
}

}  // namespace uwaga
