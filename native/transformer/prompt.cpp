// Prompts of a decoder without a source, read as a block: packed rows with causal attention, no padding.
//
// Threads share the rows of a block. A row needs of the others only their keys and values, so that one layer is one
// wait. What is computed for a row is what steps would have computed, token by token, to the bit.
#include <algorithm>

#include "transformer/model.h"

namespace uwaga {

namespace {

constexpr int64_t least_rows = 8;      // of one thread: with fewer, another would read all weights for little
constexpr int64_t spare_entries = 32;  // of a table behind a prompt, so that the first steps need no wider one

// One token of a prompt.
struct Place {
    const Prompt* prompt;
    int32_t token, position;
};

// One thread's rows of a block.
struct Part {
    const Model& model;
    const Place* places;
    int64_t rows;
    Workspace& ws;
    const Share& share;

    uint8_t* layer_of(const Place& place, std::size_t l) const {
        return place.prompt->store->base() + static_cast<int64_t>(l) * place.prompt->store->layer_stride() * model.element();
    }
    void run();
    void run_layer(std::size_t l, float* x);
    const float* project(const DecoderLayer& layer, float* x, bool queries);
    void write(std::size_t l, const float* projected);
    const float* attend(std::size_t l, const float* projected);
};

// (rows, query | key | value). Without queries those columns that lie before the keys are left out.
const float* Part::project(const DecoderLayer& layer, float* x, bool queries) {
    const Shape& shape = model.shape;
    const int64_t stride = stride_of(shape.width), inner = shape.decoder_inner(), projected_stride = stride_of(3 * inner);
    float* projected = ws.projected.ensure(rows * projected_stride);
    if (shape.pre_norm) normalise(model, layer.self_norm, x, rows, ws.normed.ensure(rows * stride));
    Rows source = rows_of(ws, shape.pre_norm ? ws.normed.get() : x, rows, shape.width, stride);
    const Matrix& whole = layer.query_key_value.weight;
    const int64_t first = queries ? 0 : inner / panel;
    Epilogue plain;
    if (layer.query_key_value.bias) plain.bias = layer.query_key_value.bias + first * panel;
    product(*model.kernels, source, part_of(whole, first, padded_outputs(whole.outputs()) / panel), plain, projected + first * panel, projected_stride);
    return projected;
}

void Part::write(std::size_t l, const float* projected) {
    const int64_t inner = model.shape.decoder_inner(), stride = stride_of(3 * inner);
    for (int64_t row = 0; row < rows; ++row) {
        const Place& place = places[row];
        const int64_t at = place.prompt->where[static_cast<std::size_t>(place.position)];
        write_entry(model, projected + row * stride + inner, layer_of(place, l) + at * model.element());
    }
}

const float* Part::attend(std::size_t l, const float* projected) {
    const Shape& shape = model.shape;
    const int64_t inner = shape.decoder_inner(), heads = shape.decoder_heads;
    const int64_t stride = stride_of(3 * inner), context_stride = stride_of(inner);
    float* context = ws.context.ensure(rows * context_stride);
    for (int64_t row = 0; row < rows; ++row) {
        const Place& place = places[row];
        const int64_t length = place.position + 1;
        const float* bias = distance_bias(model.target, heads, shape.reach, place.position, length, ws);
        float* weights = ws.weights.ensure(heads * length);
        attend_entries(model, projected + row * stride, layer_of(place, l), place.prompt->where.data(), length, bias, weights, context + row * context_stride);
    }
    return context;
}

void Part::run_layer(std::size_t l, float* x) {
    const DecoderLayer& layer = model.decoder[l];
    const bool last = l + 1 == model.decoder.size();  // of which only keys and values are of use
    const float* projected = project(layer, x, !last);
    write(l, projected);
    if (last) return;
    share.wait();  // for the keys and values of all rows
    const int64_t stride = stride_of(model.shape.width), inner = model.shape.decoder_inner();
    Rows attended = rows_of(ws, attend(l, projected), rows, inner, stride_of(inner));
    Epilogue added;
    added.bias = layer.attended.bias;
    added.residual = x;
    added.residual_stride = stride;
    product(*model.kernels, attended, layer.attended.weight, added, x, stride);
    settle(model, layer.self_norm, x, rows, x);
    feed_forward(model, layer.feed_forward, x, rows, ws, ws, Share{});
}

void Part::run() {
    if (!rows) {
        for (std::size_t l = 0; l + 1 < model.decoder.size(); ++l) share.wait();
        return;
    }
    int32_t* tokens = ws.tokens.ensure(rows);
    int32_t* positions = ws.positions.ensure(rows);
    for (int64_t row = 0; row < rows; ++row) {
        tokens[row] = places[row].token;
        positions[row] = places[row].position;
    }
    float* x = ws.x.ensure(rows * stride_of(model.shape.width));
    embed_rows(model, model.target, tokens, positions, rows, x);
    for (std::size_t l = 0; l < model.decoder.size(); ++l) run_layer(l, x);
}

// All tokens in blocks in which each of `members` threads has at most group_rows. A prompt may lie in several: what
// is behind looks only at what is before.
void run_all(const Model& model, const std::vector<Place>& places, int64_t members, const Share& share) {
    WorkspacePool::Loan ws(model.workspaces);
    const int64_t rows = static_cast<int64_t>(places.size());
    const int64_t blocks = (rows + members * group_rows - 1) / (members * group_rows);
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t begin = rows * block / blocks, count = rows * (block + 1) / blocks - begin;
        const int64_t me = std::min(share.me, members), next = std::min(share.me + 1, members);
        const int64_t first = begin + count * me / members, last = begin + count * next / members;
        Part{model, places.data() + first, last - first, *ws, share}.run();
    }
}

}  // namespace

Memory read_prompts(const ModelPtr& model, const std::vector<std::vector<int32_t>>& prompts) {
    Memory memory{model, std::vector<Encoded>(prompts.size())};
    memory.prompts.reserve(prompts.size());  // places point into it
    std::vector<Place> places;
    for (const std::vector<int32_t>& tokens : prompts) {
        auto store = std::make_shared<Store>(model->pages, model->entry(), model->element());
        const int64_t read = static_cast<int64_t>(tokens.size()) - 1;
        memory.prompts.push_back({std::move(store), std::vector<int64_t>(static_cast<std::size_t>(read)), tokens.back()});
        Prompt& prompt = memory.prompts.back();
        prompt.store->take(read, prompt.where.data(), 1);
        for (int32_t at = 0; at < read; ++at) places.push_back({&prompt, tokens[static_cast<std::size_t>(at)], at});
    }
    const int64_t worthwhile = std::max<int64_t>(1, static_cast<int64_t>(places.size()) / least_rows);
    if (places.empty()) return memory;
    if (worthwhile == 1) run_all(*model, places, 1, Share{});
    else model->workers.together([&](const Share& share) { run_all(*model, places, std::min(share.size, worthwhile), share); });
    return memory;
}

State start_behind(const std::vector<Prompt>& prompts, State state) {
    for (const Prompt& prompt : prompts) {
        const int64_t read = static_cast<int64_t>(prompt.where.size());
        state.sentences.push_back({{}, prompt.store, read, {}, prompt.last});
        state.stride = std::max(state.stride, read + spare_entries);
    }
    state.tables.resize(static_cast<std::size_t>(state.rows() * state.stride));
    for (int64_t row = 0; row < state.rows(); ++row) {
        const std::vector<int64_t>& where = prompts[static_cast<std::size_t>(row / state.beams)].where;
        std::copy(where.begin(), where.end(), state.tables.data() + row * state.stride);
    }
    return state;
}

void put_last_of_prompts(const State& state, int32_t* tokens) {
    for (int64_t row = 0; row < state.rows(); ++row) {
        const int32_t first = state.sentences[static_cast<std::size_t>(row / state.beams)].first;
        if (first >= 0) tokens[row] = first;
    }
}

}  // namespace uwaga
