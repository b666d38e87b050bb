// Prompts of a decoder-only model, processed in blocks: packed rows with causal attention, no padding.
//
// Threads divide the rows of a block. A row needs only the keys and values of the others, so there is one barrier per
// layer. Results are bit-identical to those of steps, token by token.
#include <algorithm>

#include "transformer/blocks.h"
#include "transformer/state.h"

namespace uwaga {

namespace {

constexpr int64_t least_prompt_rows = 8;      // minimum per thread: with fewer, one more thread would read all weights for little
constexpr int64_t spare_entries = 32;  // extra table entries after a prompt, so that the first steps need no wider one

// One token of a prompt.
struct PromptToken {
    const Prompt* prompt;
    int32_t token, position;
};

// One thread's rows of a block.
struct PromptPart {
    const Model& model;
    const PromptToken* read;
    int64_t rows;
    Workspace& ws;
    const ThreadSlice& slice;

    uint8_t* layer_of(const PromptToken& token, std::size_t l) const {
        return token.prompt->store->base() + static_cast<int64_t>(l) * token.prompt->store->layer_stride() * model.cache_element_size();
    }
    void run();
    void run_layer(std::size_t l, float* x);
    const float* project(const DecoderLayer& layer, float* x, bool queries);
    void write_keys_values(std::size_t l, const float* projected);
    const float* attend(std::size_t l, const float* projected);
};

// (rows, query | key | value). Without queries, the panels before the keys are skipped.
const float* PromptPart::project(const DecoderLayer& layer, float* x, bool queries) {
    const int64_t inner = model.shape.decoder.inner(), projected_stride = stride_of(3 * inner);
    float* projected = ws.projected.ensure(rows * projected_stride);
    Rows in = block_input(model, layer.self_norm, x, rows, ws);
    const Matrix& whole = layer.query_key_value.weight;
    const int64_t first = queries ? 0 : inner / panel;
    Epilogue plain;
    if (layer.query_key_value.bias) plain.bias = layer.query_key_value.bias + first * panel;
    product(*model.kernels, in, part_of(whole, first, padded_outputs(whole.outputs()) / panel), plain, projected + first * panel, projected_stride);
    return projected;
}

void PromptPart::write_keys_values(std::size_t l, const float* projected) {
    const int64_t inner = model.shape.decoder.inner(), stride = stride_of(3 * inner);
    for (int64_t row = 0; row < rows; ++row) {
        const PromptToken& token = read[row];
        const int64_t at = token.prompt->offsets[static_cast<std::size_t>(token.position)];
        store_key_value(model, projected + row * stride + inner, layer_of(token, l) + at * model.cache_element_size());
    }
}

const float* PromptPart::attend(std::size_t l, const float* projected) {
    const Heads& heads = model.shape.decoder;
    const int64_t stride = stride_of(3 * heads.inner()), context_stride = stride_of(heads.inner());
    float* context = ws.context.ensure(rows * context_stride);
    for (int64_t row = 0; row < rows; ++row) {
        const PromptToken& token = read[row];
        const int64_t length = token.position + 1;
        const float* bias = relative_bias(model, model.target, heads, token.position, length, ws);
        float* weights = ws.weights.ensure(heads.count * length);
        attend_cached(model, heads, {AttentionKind::decoder, static_cast<int64_t>(l), length - 1}, projected + row * stride, layer_of(token, l), token.prompt->offsets.data(), length, bias, weights, context + row * context_stride);
    }
    return context;
}

void PromptPart::run_layer(std::size_t l, float* x) {
    const DecoderLayer& layer = model.decoder[l];
    const bool last = l + 1 == model.decoder.size();  // needs only keys and values
    const float* projected = project(layer, x, !last);
    write_keys_values(l, projected);
    if (last) return;
    slice.wait();  // until the keys and values of all rows are written
    const int64_t inner = model.shape.decoder.inner();
    Rows attended = rows_of(ws, attend(l, projected), rows, inner, stride_of(inner));
    block_output(model, layer.self_output, layer.self_norm, attended, x, ws, ThreadSlice{});
    feed_forward(model, layer.feed_forward, x, rows, ws, ws, ThreadSlice{});
}

void PromptPart::run() {
    if (!rows) {
        for (std::size_t l = 0; l + 1 < model.decoder.size(); ++l) slice.wait();
        return;
    }
    int32_t* tokens = ws.tokens.ensure(rows);
    int32_t* positions = ws.positions.ensure(rows);
    for (int64_t row = 0; row < rows; ++row) {
        tokens[row] = read[row].token;
        positions[row] = read[row].position;
    }
    float* x = ws.x.ensure(rows * stride_of(model.shape.width));
    embed_rows(model, model.target, tokens, positions, rows, x);
    for (std::size_t l = 0; l < model.decoder.size(); ++l) run_layer(l, x);
}

// Process all tokens in blocks in which each of `members` threads has at most group_rows. A prompt may span blocks,
// because tokens attend only to earlier ones.
void run_all(const Model& model, const std::vector<PromptToken>& all, int64_t members, const ThreadSlice& slice) {
    WorkspacePool::Loan ws(model.workspaces);
    const int64_t rows = static_cast<int64_t>(all.size());
    const int64_t blocks = (rows + members * group_rows - 1) / (members * group_rows);
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t begin = rows * block / blocks, count = rows * (block + 1) / blocks - begin;
        const int64_t me = std::min(slice.index, members), next = std::min(slice.index + 1, members);
        const int64_t first = begin + count * me / members, last = begin + count * next / members;
        PromptPart{model, all.data() + first, last - first, *ws, slice}.run();
    }
}

}  // namespace

Memory read_prompts(const ModelPtr& model, const std::vector<std::vector<int32_t>>& prompts) {
    Memory memory{model, std::vector<EncodedSentence>(prompts.size())};
    memory.prompts.reserve(prompts.size());  // `all` points into it
    std::vector<PromptToken> all;
    for (const std::vector<int32_t>& tokens : prompts) {
        auto store = std::make_shared<KeyValueStore>(model->pages, model->key_value_width(), model->cache_element_size());
        const int64_t size = static_cast<int64_t>(tokens.size()) - 1;
        check_tables(*model, AttentionKind::decoder, size, size + 1);
        memory.prompts.push_back({std::move(store), std::vector<int64_t>(static_cast<std::size_t>(size)), tokens.back()});
        Prompt& prompt = memory.prompts.back();
        prompt.store->take(size, prompt.offsets.data(), 1);
        for (int32_t at = 0; at < size; ++at) all.push_back({&prompt, tokens[static_cast<std::size_t>(at)], at});
    }
    const int64_t worthwhile = std::max<int64_t>(1, static_cast<int64_t>(all.size()) / least_prompt_rows);
    if (all.empty()) return memory;
    if (worthwhile == 1) run_all(*model, all, 1, ThreadSlice{});
    else model->workers.run_team([&](const ThreadSlice& slice) { run_all(*model, all, std::min(slice.count, worthwhile), slice); });
    return memory;
}

State start_after(const std::vector<Prompt>& prompts, State state) {
    for (const Prompt& prompt : prompts) {
        const int64_t read = static_cast<int64_t>(prompt.offsets.size());
        state.sentences.push_back({{}, prompt.store, read, prompt.last});
        state.stride = std::max(state.stride, read + spare_entries);
    }
    state.tables.resize(static_cast<std::size_t>(state.rows() * state.stride));
    for (int64_t row = 0; row < state.rows(); ++row) {
        const std::vector<int64_t>& offsets = prompts[static_cast<std::size_t>(row / state.beams)].offsets;
        std::copy(offsets.begin(), offsets.end(), state.tables.data() + row * state.stride);
    }
    return state;
}

void feed_last_of_prompts(const State& state, int32_t* tokens, const int64_t* first) {
    for (int64_t row = 0; row < state.rows(); ++row) {
        const int32_t last = state.sentences[static_cast<std::size_t>(row / state.beams)].first;
        if (last >= 0) tokens[first ? first[row] : row] = last;
    }
}

}  // namespace uwaga
