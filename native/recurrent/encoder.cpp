// The encoder: all sentences of a group take each time step together, the longest first, so that those still
// running are the first rows.
#include <algorithm>
#include <numeric>

#include "recurrent/unit.h"

namespace uwaga {

namespace {

constexpr int64_t min_tokens = 256, max_tokens = 1024;  // encoded together, unless a single sentence has more
constexpr int64_t steps_between_checks = 32;

struct SourceGroup {
    const RecurrentNetwork& net;
    const std::vector<Tokens>& sources;
    std::size_t first, last;  // range of sentences
    Workspace& ws;
    int64_t rows = 0;
    std::vector<int64_t> starts = {}, lengths = {}, order = {};  // order: the longest sentence first
    Buffer<float> initial_states = {};                           // (sentences, net.initial_width)

    int64_t count() const { return static_cast<int64_t>(last - first); }
    int64_t length(int64_t s) const { return lengths[static_cast<std::size_t>(s)]; }
    int64_t start(int64_t s) const { return starts[static_cast<std::size_t>(s)]; }
    float* initial_state(int64_t s) { return initial_states.get() + s * net.initial_width; }
    // The position in the sentence of the token that is read at time t.
    int64_t position(int64_t s, int64_t t) const {
        return net.reversed && t + 1 < length(s) ? length(s) - 2 - t : t;
    }

    std::shared_ptr<const Chunk> run();
    void embed_sources();
    void run_stages();
    void run_direction(const Unit& unit, bool backwards, const float* x, int64_t stride, const FloatRows& out,
                       int64_t column, int64_t state_column, int64_t cell_gap);
    void finish_initial_states();
    std::shared_ptr<const Chunk> store();
};

void SourceGroup::embed_sources() {
    for (std::size_t s = first; s < last; ++s) {
        starts.push_back(rows);
        lengths.push_back(static_cast<int64_t>(sources[s].size()));
        rows += lengths.back();
    }
    order.resize(lengths.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [this](int64_t a, int64_t b) { return length(a) > length(b); });
    int32_t* tokens = ws.tokens.ensure(rows);
    for (int64_t s = 0; s < count(); ++s) {
        for (int64_t t = 0; t < length(s); ++t)
            tokens[start(s) + t] = sources[first + static_cast<std::size_t>(s)]
                                          [static_cast<std::size_t>(position(s, t))];
    }
    const int64_t stride = stride_of(net.embedding);
    embed(*net.kernels, net.source_embedding, tokens, rows, 1.0f, ws.x.ensure(rows * stride), stride);
}

// Run a layer over x (rows, stride) in one direction. Writes its hidden states to columns of `out`, and its
// last state to the sentences' `initial_states`, the hidden state from `state_column`, the cell `cell_gap`
// further on; not if it is negative.
void SourceGroup::run_direction(const Unit& unit, bool backwards, const float* x, int64_t stride,
                                const FloatRows& out, int64_t column, int64_t state_column,
                                int64_t cell_gap) {
    const int64_t units = unit.units, width = unit.state_width(), gates_stride = stride_of(unit.gates());
    FloatRows projected{ws.projected.ensure(rows * gates_stride), gates_stride};
    project(net, unit.inputs, x, rows, stride, Activation::none, projected, ws);
    float* states = ws.normed.ensure(count() * width);  // in the order of the lengths
    std::fill(states, states + count() * width, 0.0f);
    int64_t* row_indices = ws.offsets.ensure(count());
    projected.indices = row_indices;
    int64_t running = count();
    for (int64_t t = 0; t < length(order.front()); ++t) {
        if (t % steps_between_checks == steps_between_checks - 1) net.workers.check();
        while (length(order[static_cast<std::size_t>(running - 1)]) <= t) --running;
        for (int64_t i = 0; i < running; ++i) {
            const int64_t s = order[static_cast<std::size_t>(i)];
            row_indices[i] = start(s) + (backwards ? length(s) - 1 - t : t);
        }
        advance(net, unit, projected, states, width, {states, width}, running, ws);
        for (int64_t i = 0; i < running; ++i)
            std::copy_n(states + i * width, units, out.row(row_indices[i]) + column);
    }
    for (int64_t i = 0; i < count() && state_column >= 0; ++i) {
        float* to = initial_state(order[static_cast<std::size_t>(i)]) + state_column;
        for (int64_t part = 0; part * units < width; ++part)
            std::copy_n(states + i * width + part * units, units, to + part * cell_gap);
    }
}

// Leaves the annotations in ws.x, in the order in which the tokens were read.
void SourceGroup::run_stages() {
    const bool stores_states = net.family == Family::sutskever || net.family == Family::luong;
    int64_t stride = stride_of(net.embedding), state_column = net.input_feeding ? net.units : 0;
    for (const EncoderStage& stage : net.encoder) {
        const int64_t width = stage.width(), out_stride = stride_of(width);
        const FloatRows out{ws.features.ensure(rows * out_stride), out_stride};
        run_direction(stage.forward, false, ws.x.get(), stride, out, 0, stores_states ? state_column : -1,
                      width);
        if (stage.backward.units)
            run_direction(stage.backward, true, ws.x.get(), stride, out, stage.forward.units,
                          stores_states ? state_column + stage.forward.units : -1, width);
        if (stage.residual) {
            for (int64_t row = 0; row < rows; ++row) {
                const float* input = ws.x.get() + row * stride;
                for (int64_t k = 0; k < width; ++k) out.row(row)[k] += input[k];
            }
        }
        std::swap(ws.x, ws.features);
        stride = out_stride;
        state_column += 2 * width;
    }
}

// The initial states computed from annotations: h of the first or last position through one or two layers.
void SourceGroup::finish_initial_states() {
    const int64_t units = net.units, stride = stride_of(net.encoder.back().width());
    if (net.family != Family::cho && net.family != Family::bahdanau) return;
    const FloatRows out{initial_states.get(), net.initial_width};
    float* last_states = ws.normed.ensure(count() * units);
    for (int64_t s = 0; s < count(); ++s) {
        const float* from = net.family == Family::cho ? ws.x.get() + (start(s) + length(s) - 1) * stride
                                                      : ws.x.get() + start(s) * stride + units;
        std::copy_n(from, units, last_states + s * units);
    }
    if (net.family == Family::bahdanau)
        return project(net, net.bridge, last_states, count(), units, Activation::tanh, out, ws);
    const FloatRows summary{initial_states.get() + units, net.initial_width};  // Cho: (first state | c | c's
                                                                               // share of the gates)
    project(net, net.summary, last_states, count(), units, Activation::tanh, summary, ws);
    project(net, net.bridge, summary.data, count(), net.initial_width, Activation::tanh, out, ws);
    project(net, net.summary_gates, summary.data, count(), net.initial_width, Activation::none,
            {initial_states.get() + 2 * units, net.initial_width}, ws);
}

std::shared_ptr<const Chunk> SourceGroup::store() {
    const int64_t entry = net.entry_size(), stride = stride_of(net.encoder.back().width()),
                  size = rows * entry + count() * net.initial_width;
    const auto chunk = std::make_shared<Chunk>(net.chunks, size * int64_t{sizeof(float)}, rows);
    float* const to = reinterpret_cast<float*>(chunk->page.data);
    for (int64_t s = 0; s < count() && net.attends(); ++s) {
        for (int64_t t = 0; t < length(s); ++t)
            std::copy_n(ws.x.get() + (start(s) + t) * stride, net.values,
                        to + (start(s) + position(s, t)) * entry);
    }
    if (net.prepared)
        project(net, {net.score.key, nullptr}, to, rows, entry, Activation::none, {to + net.values, entry},
                ws);
    std::copy_n(initial_states.get(), count() * net.initial_width, to + rows * entry);
    return chunk;
}

std::shared_ptr<const Chunk> SourceGroup::run() {
    embed_sources();
    float* states = initial_states.ensure(count() * net.initial_width);
    std::fill(states, states + count() * net.initial_width, 0.0f);
    run_stages();
    finish_initial_states();
    return store();
}

}  // namespace

Memory RecurrentNetwork::encode(const std::vector<Tokens>& sources, const std::vector<float*>&) const {
    int64_t total = 0;
    for (const Tokens& source : sources) total += static_cast<int64_t>(source.size());
    const int64_t limit = std::clamp(total / workers.threads() + 1, min_tokens, max_tokens);
    std::vector<std::size_t> group_ends;  // of the groups
    for (std::size_t s = 0, tokens = 0; s < sources.size(); ++s) {
        tokens += sources[s].size();
        if (!group_ends.empty() && tokens <= static_cast<std::size_t>(limit)) group_ends.back() = s + 1;
        else group_ends.push_back(s + 1), tokens = sources[s].size();
    }
    std::vector<std::shared_ptr<const Chunk>> encoded(group_ends.size());
    workers.run(static_cast<int64_t>(group_ends.size()), [&](int64_t part) {
        const std::size_t g = static_cast<std::size_t>(part);
        WorkspacePool::Loan ws(workspaces);
        encoded[g] = SourceGroup{*this, sources, g ? group_ends[g - 1] : 0, group_ends[g], *ws}.run();
    });
    Memory memory{shared_from_this(), {}};
    memory.sentences.reserve(sources.size());
    for (std::size_t g = 0, s = 0; g < group_ends.size(); ++g) {
        int64_t row = 0, number = 0;
        for (; s < group_ends[g]; ++s, ++number) {
            const int64_t length = static_cast<int64_t>(sources[s].size());
            memory.sentences.push_back({encoded[g], row, length, {}, number});
            row += length;
        }
    }
    return memory;
}

const float* RecurrentNetwork::initial_cells(const EncodedSentence& sentence) const {
    return reinterpret_cast<const float*>(sentence.chunk->page.data) + sentence.chunk->rows * entry_size() +
           sentence.number * initial_width;
}

}  // namespace uwaga
