// One decoder step for rows that may be at different positions of different sentences.
#include <algorithm>

#include "output/choose.h"
#include "transformer/blocks.h"
#include "transformer/encoder.h"
#include "network/distinct_rows.h"

namespace uwaga {

namespace {

constexpr int64_t min_part_rows = 8;  // minimum per thread: with fewer, two threads would read all weights
                                      // for little

// The keys, each followed by its value, that a row attends to.
struct RowKeys {
    const uint8_t* base;
    const int64_t* offsets;  // from the base to each key, in elements
    int64_t length;
    int64_t position;  // of the first key

    uintptr_t first(int64_t element_size) const {
        return reinterpret_cast<uintptr_t>(base) +
               static_cast<uintptr_t>(length > 0 ? offsets[0] * element_size : 0);
    }
};

// Computed rows [first, last) of a step. `next` holds the tables, which already contain this step's entries.
struct StepRows {
    const Transformer& model;
    const State& next;
    const StepInput& input;
    int64_t first, last;
    Workspace& ws;
    Workspace& shared;  // the team's; without a team, ws itself
    ThreadSlice slice;
    const float* cells_before;  // cells of the current state; `cells_after`: of the next one
    float* cells_after;
    bool drafts = false;  // rows attend to earlier rows

    int64_t rows() const { return last - first; }
    int64_t state_row(int64_t row) const { return input.numbers ? input.numbers[first + row] : first + row; }
    const State::Sentence& sentence(int64_t row) const {
        return next.sentences[static_cast<std::size_t>(state_row(row) / next.beams)];
    }
    const int64_t* table(int64_t row) const { return next.tables.data() + state_row(row) * next.stride; }

    void reserve();
    void run();
    void store(std::size_t l, int64_t row, float* projected, int64_t stride);
    RowKeys target_keys(std::size_t l, int64_t row) const;
    RowKeys source_keys(std::size_t l, int64_t row) const;
    void attend(AttentionKind kind, std::size_t l, int64_t row, const float* query, const float* bias,
                float* context);
    void self_attend(std::size_t l, float* projected, int64_t stride, float* context, int64_t context_stride);
    void cross_attend(std::size_t l, const float* queries, int64_t stride, float* context,
                      int64_t context_stride);
    void write_attention(int64_t row, const float* weights, int64_t length) const;
    void recur_layer(std::size_t l, float* x);
    void run_layer(std::size_t l, float* x);
};

// Rotate a row's query and key, and store its key and value.
void StepRows::store(std::size_t l, int64_t row, float* projected, int64_t stride) {
    const State::Sentence& current = sentence(row);
    const int64_t offset = static_cast<int64_t>(l) * current.store->layer_stride() +
                           table(row)[current.position - 1];
    const int64_t angle_stride = static_cast<int64_t>(model.rotary.size()) * model.shape.decoder.width;
    normalise_and_rotate(model, model.decoder[l], ws.angles.get() + row * angle_stride, true,
                         projected + row * stride);
    store_key_value(model, projected + row * stride + model.shape.decoder.inner(),
                    current.store->base() + offset * model.cache_element_size());
}

// The last keys of the target within the layer's window, including this step's.
RowKeys StepRows::target_keys(std::size_t l, int64_t row) const {
    const State::Sentence& current = sentence(row);
    const int64_t visible = std::min(current.position, model.decoder[l].window),
                  skipped = current.position - visible;
    return {current.store->base() +
                static_cast<int64_t>(l) * current.store->layer_stride() * model.cache_element_size(),
            table(row) + skipped, visible, skipped};
}

RowKeys StepRows::source_keys(std::size_t l, int64_t row) const {
    const EncodedSentence& memory = sentence(row).memory;
    const int64_t first_key = (static_cast<int64_t>(l) * memory.chunk->rows + memory.first) *
                              model.key_value_width();
    return {memory.chunk->page.data + first_key * model.cache_element_size(), ws.offsets.get(), memory.length,
            0};
}

// The weights are left in the workspace.
void StepRows::attend(AttentionKind kind, std::size_t l, int64_t row, const float* query, const float* bias,
                      float* context) {
    const auto keys_of = [&](int64_t index) {
        return kind == AttentionKind::cross ? source_keys(l, index) : target_keys(l, index);
    };
    const Heads& heads = model.shape.decoder;
    const RowKeys keys = keys_of(row);
    CachedAttention attention = single_query(query, keys.offsets, keys.length, bias,
                                             ws.weights.ensure(heads.count * keys.length), context);
    if (row + 1 < slice.last(rows()))
        attention.following = keys_of(row + 1).first(model.cache_element_size()) -
                              keys.first(model.cache_element_size());
    attend_cached(model, heads, {kind, static_cast<int64_t>(l), sentence(row).position - 1, keys.position},
                  keys.base, attention);
}

void StepRows::self_attend(std::size_t l, float* projected, int64_t stride, float* context,
                           int64_t context_stride) {
    for (int64_t row = slice.first(rows()); drafts && row < slice.last(rows()); ++row)
        store(l, row, projected, stride);
    if (drafts) slice.wait();
    for (int64_t row = slice.first(rows()); row < slice.last(rows()); ++row) {
        if (!drafts) store(l, row, projected, stride);
        const int64_t length = sentence(row).position;  // including this step's key
        const float* bias = relative_bias(model, model.target, model.shape.decoder, length - 1, length, ws);
        attend(AttentionKind::decoder, l, row, projected + row * stride, bias,
               context + row * context_stride);
    }
}

void StepRows::cross_attend(std::size_t l, const float* queries, int64_t stride, float* context,
                            int64_t context_stride) {
    const bool write_weights = input.answer.attention && l + 1 == model.decoder.size();
    for (int64_t row = slice.first(rows()); row < slice.last(rows()); ++row) {
        attend(AttentionKind::cross, l, row, queries + row * stride, nullptr, context + row * context_stride);
        if (write_weights) write_attention(row, ws.weights.get(), sentence(row).memory.length);
    }
}

// Write the mean over the heads, padded with zeros.
void StepRows::write_attention(int64_t row, const float* weights, int64_t length) const {
    const int64_t heads = model.shape.decoder.count;
    float* to = input.answer.attention + (first + row) * input.answer.attention_width;
    for (int64_t key = 0; key < length; ++key) {
        float sum = 0;
        for (int64_t head = 0; head < heads; ++head) sum += weights[head * length + key];
        to[key] = sum / static_cast<float>(heads);
    }
    std::fill(to + length, to + input.answer.attention_width, 0.0f);
}

void StepRows::recur_layer(std::size_t l, float* x) {
    const DecoderLayer& layer = model.decoder[l];
    const int64_t width = model.width, stride = stride_of(width), cells_width = model.cells;
    Rows source = block_input(model, layer.self_norm, x, rows(), ws);
    float *forget = shared.projected.get(), *input = shared.context.get();
    Epilogue biased;
    biased.bias = layer.forget.bias;
    product(*model.kernels, source, layer.forget.weight, biased, forget, stride, slice);
    product(*model.kernels, source, layer.input.weight, Epilogue{}, input, stride, slice);
    slice.wait();
    const int64_t cells = first * cells_width + static_cast<int64_t>(l) * width;
    recur(model, {forget, input, stride, cells_before + cells, cells_after + cells, cells_width},
          layer.self_norm, x, rows(), shared, slice);
}

void StepRows::run_layer(std::size_t l, float* x) {
    const DecoderLayer& layer = model.decoder[l];
    const int64_t inner = model.shape.decoder.inner();
    const int64_t projected_stride = stride_of(model.shape.decoder.projected_width()),
                  context_stride = stride_of(inner);
    float* projected = shared.projected.get();
    float* context = shared.context.get();
    const auto block = [&](const Linear& in, const BlockNorms& norm, const Linear& out,
                           const auto& attention) {
        Rows source = block_input(model, norm, x, rows(), ws);
        Epilogue plain;
        plain.bias = in.bias;
        product(*model.kernels, source, in.weight, plain, projected, projected_stride, slice);
        slice.wait();
        attention();
        slice.wait();
        Rows attended = rows_of(ws, context, rows(), inner, context_stride);
        block_output(model, out, norm, attended, x, ws, shared, slice);
    };
    if (model.shape.ssru) recur_layer(l, x);
    else
        block(layer.query_key_value, layer.self_norm, layer.self_output,
              [&] { self_attend(l, projected, projected_stride, context, context_stride); });
    if (model.has_source())
        block(layer.query, layer.cross_norm, layer.cross_output,
              [&] { cross_attend(l, projected, projected_stride, context, context_stride); });
    feed_forward(model, layer.feed_forward, x, rows(), ws, shared, slice);
}

// Allocate the team's buffers: one thread calls this before the others read their addresses.
void StepRows::reserve() {
    const Shape& shape = model.shape;
    const int64_t inner = shape.decoder.inner();
    int64_t widest = 0;
    bool gated = false;
    for (const DecoderLayer& layer : model.decoder) {
        widest = std::max(widest, stride_of(layer.feed_forward.inner.weight.outputs()));
        gated = gated || layer.feed_forward.gate.weight;
    }
    shared.projected.ensure(rows() * stride_of(std::max(shape.decoder.projected_width(), model.width)));
    shared.context.ensure(rows() * stride_of(std::max(inner, model.width)));
    shared.hidden.ensure(rows() * widest);
    if (gated) shared.gate.ensure(rows() * widest);
    if (slice.count == 1) return;
    shared.features.ensure(rows() * stride_of(model.width));
    shared.outputs.ensure(output_chunks * rows());
    shared.candidates.ensure(output_chunks * rows() * input.answer.k);
}

void StepRows::run() {
    const int64_t stride = stride_of(model.width);
    float* x = ws.x.ensure(rows() * stride);
    int32_t* positions = ws.positions.ensure(rows());
    int64_t longest = 0;
    for (int64_t row = 0; row < rows(); ++row) {
        positions[row] = static_cast<int32_t>(sentence(row).position - 1);
        longest = std::max(longest, sentence(row).memory.length);
    }
    int64_t* offsets = ws.offsets.ensure(longest);
    for (int64_t key = 0; key < longest; ++key) offsets[key] = key * model.key_value_width();
    rotary_angles(model, positions, rows(), ws);
    embed_rows(model, model.target, input.tokens + first, positions, rows(), x, ws);
    for (std::size_t l = 0; l < model.decoder.size(); ++l) run_layer(l, x);
    if (model.shape.pre_norm) normalise(model, model.decoder_norm, x, rows(), x);
    scale_output(model, x, rows());
    Rows features = rows_of(ws, x, rows(), model.width, stride, model.output_terms);
    choose(model, features, first, input.request, input.answer, next, ws, shared, slice);
}

// The next state, with room for this step in every table and the offsets of this step's keys filled in.
State advanced(const Transformer& model, const State& state, const DistinctRows& distinct) {
    State next = at_next_position(state);
    int64_t longest = 0;
    for (const State::Sentence& sentence : next.sentences) {
        longest = std::max(longest, sentence.position);
        check_tables(model, AttentionKind::decoder, sentence.position - 1, sentence.position);
        check_tables(model, AttentionKind::cross, sentence.position - 1, sentence.memory.length);
    }
    if (model.shape.ssru) return next;
    if (longest > state.stride) next.stride = std::max<int64_t>({32, longest, 2 * state.stride});
    next.tables.resize(static_cast<std::size_t>(state.rows() * next.stride));
    for (std::size_t s = 0; s < next.sentences.size(); ++s) {
        State::Sentence& sentence = next.sentences[s];
        const int64_t first = static_cast<int64_t>(s) * state.beams;
        for (int64_t row = first; row < first + state.beams; ++row) {
            const int64_t* from = state.tables.data() + row * state.stride;
            std::copy(from, from + sentence.position - 1, next.tables.data() + row * next.stride);
        }
        int64_t* entry = next.tables.data() + first * next.stride + sentence.position - 1;
        sentence.store->take(distinct.first_only(s) ? 1 : state.beams, entry, next.stride);
        for (int64_t beam = 1; beam < state.beams && distinct.first_only(s); ++beam)
            entry[beam * next.stride] = *entry;
    }
    return next;
}

// The state with a sentence for each row of drafts, at its own position, in whose table are the keys of
// earlier rows.
State with_rows(const State& state, const std::vector<int64_t>& first) {
    const Network& model = *state.network;
    State next{state.network, 1, {}, state.stride, {}};
    for (std::size_t s = 0; s < state.sentences.size(); ++s) {
        const int64_t longest = state.sentences[s].position + first[s + 1] - first[s];
        if (longest > model.max_length) throw too_long(model, longest);
        if (longest > next.stride) next.stride = std::max<int64_t>({32, longest, 2 * state.stride});
    }
    next.sentences.reserve(static_cast<std::size_t>(first.back()));
    next.tables.resize(static_cast<std::size_t>(first.back() * next.stride));
    std::vector<int64_t> offsets;
    for (std::size_t s = 0; s < state.sentences.size(); ++s) {
        const State::Sentence& sentence = state.sentences[s];
        const int64_t rows = first[s + 1] - first[s];
        offsets.resize(static_cast<std::size_t>(rows));
        sentence.store->take(rows, offsets.data(), 1);
        for (int64_t row = 0; row < rows; ++row) {
            next.sentences.push_back(sentence);
            next.sentences.back().position += row + 1;
            next.sentences.back().prompt_token = -1;
            int64_t* table = next.tables.data() + (first[s] + row) * next.stride;
            table = std::copy_n(state.tables.data() + static_cast<int64_t>(s) * state.stride,
                                sentence.position, table);
            std::copy_n(offsets.data(), row + 1, table);
        }
    }
    return next;
}

// Many rows are divided among the threads. Few rows are computed by all threads together, each a slice of the
// columns: a single thread would be limited by how fast it can read the weights.
void decode(const Transformer& model, const State& state, State& next, const StepInput& input,
            const std::vector<int64_t>* drafts = nullptr) {
    const int64_t rows = input.rows;
    const int64_t threads = model.workers.threads();
    int64_t parts = std::max<int64_t>(1, std::min(threads, rows / min_part_rows));
    if (drafts) parts = std::min(parts, static_cast<int64_t>(drafts->size()) - 1);
    // The rows of a draft stay together.
    const auto boundary = [&](int64_t part) {
        return drafts ? *std::lower_bound(drafts->begin(), drafts->end(), rows * part / parts)
                      : rows * part / parts;
    };
    if (parts > 1 || threads == 1 || rows == 0 || model.width < model.shared_width) {
        model.workers.run(parts, [&](int64_t part) {
            WorkspacePool::Loan ws(model.workspaces);
            StepRows part_rows{model,
                               next,
                               input,
                               boundary(part),
                               boundary(part + 1),
                               *ws,
                               *ws,
                               ThreadSlice{},
                               state.cells.data(),
                               next.cells.data(),
                               drafts != nullptr};
            part_rows.reserve();
            part_rows.run();
        });
        return;
    }
    WorkspacePool::Loan shared(model.workspaces);
    model.workers.run_team([&](const ThreadSlice& slice) {
        WorkspacePool::Loan ws(model.workspaces);
        StepRows part_rows{model,
                           next,
                           input,
                           0,
                           rows,
                           *ws,
                           *shared,
                           slice,
                           state.cells.data(),
                           next.cells.data(),
                           drafts != nullptr};
        if (slice.index == 0) part_rows.reserve();
        slice.wait();
        part_rows.run();
    });
}

}  // namespace

State Transformer::start(const Memory& memory, int64_t beams) const {
    State state = empty_state(memory, beams);
    if (!has_source()) {
        start_after_prompts(memory, state);
        return state;
    }
    for (const EncodedSentence& sentence : memory.sentences) {
        std::shared_ptr<KeyValueStore> store;
        if (!shape.ssru)
            store = std::make_shared<KeyValueStore>(pages, key_value_width(), cache_element_size());
        state.sentences.push_back({sentence, std::move(store)});
    }
    state.cells.resize(static_cast<std::size_t>(state.rows() * cells));
    return state;
}

State Transformer::step(const State& state, const int32_t* tokens, const Request& request,
                        const Answer& answer) const {
    const DistinctRows distinct(state, tokens, request, answer, !shape.ssru);
    State next = advanced(*this, state, distinct);
    decode(*this, state, next, distinct.input());
    distinct.spread();
    return next;
}

State Transformer::verify(const State& state, const std::vector<int64_t>& first, const int32_t* tokens,
                          const Request& request, const Answer& answer) const {
    State next = with_rows(state, first);
    decode(*this, state, next, {tokens, request, answer, nullptr, first.back()}, &first);
    return next;
}

}  // namespace uwaga
