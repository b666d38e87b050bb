// Prompts of a decoder-only model, processed in blocks: packed rows with causal attention, no padding.
//
// Threads divide the rows of a block. A row needs only the keys and values of the others, so there is one barrier per
// layer. Results are bit-identical to those of steps, token by token.
#include <algorithm>
#include <numeric>

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
    float* project(const DecoderLayer& layer, float* x, bool queries);
    void write_keys_values(std::size_t l, bool queries, float* projected);
    const float* attend(std::size_t l, const float* projected);
    int64_t adjacent(int64_t row) const;
};

// (rows, query | key | value). Without queries, the panels before the keys are skipped.
float* PromptPart::project(const DecoderLayer& layer, float* x, bool queries) {
    const int64_t inner = model.shape.decoder.inner(), projected_stride = stride_of(model.shape.decoder.projected_width());
    float* projected = ws.projected.ensure(rows * projected_stride);
    Rows in = block_input(model, layer.self_norm, x, rows, ws);
    const Matrix& whole = layer.query_key_value.weight;
    const int64_t first = queries ? 0 : inner / panel;
    Epilogue plain;
    if (layer.query_key_value.bias) plain.bias = layer.query_key_value.bias + first * panel;
    product(*model.kernels, in, part_of(whole, first, padded_outputs(whole.outputs()) / panel), plain, projected + first * panel, projected_stride);
    return projected;
}

// Place queries and keys, and store keys and values.
void PromptPart::write_keys_values(std::size_t l, bool queries, float* projected) {
    const Heads& heads = model.shape.decoder;
    const int64_t inner = heads.inner(), stride = stride_of(heads.projected_width()), turned = static_cast<int64_t>(model.rotary.size()) * heads.width;
    for (int64_t row = 0; row < rows; ++row) {
        const PromptToken& token = read[row];
        place(model, model.decoder[l], ws.turns.get() + row * turned, queries, projected + row * stride);
        const int64_t at = token.prompt->offsets[static_cast<std::size_t>(token.position)];
        store_key_value(model, projected + row * stride + inner, layer_of(token, l) + at * model.cache_element_size());
    }
}

// The number of rows from this one on that are consecutive tokens of a prompt, at most as many as attend together.
int64_t PromptPart::adjacent(int64_t row) const {
    int64_t count = 1;
    while (count < queries_at_once && row + count < rows && read[row + count].prompt == read[row].prompt) ++count;
    return count;
}

const float* PromptPart::attend(std::size_t l, const float* projected) {
    const Heads& heads = model.shape.decoder;
    const int64_t window = model.decoder[l].window;
    const int64_t stride = stride_of(heads.projected_width()), context_stride = stride_of(heads.inner());
    float* context = ws.context.ensure(rows * context_stride);
    for (int64_t row = 0, count = 1; row < rows; row += count) {
        const PromptToken& token = read[row];
        const int64_t length = token.position + 1, seen = std::min(length, window), unseen = length - seen;
        const int64_t* offsets = token.prompt->offsets.data() + unseen;
        if (model.edits) {
            attend_cached(model, heads, {AttentionKind::decoder, static_cast<int64_t>(l), length - 1, unseen}, layer_of(token, l), single_query(projected + row * stride, offsets, seen, nullptr, ws.weights.ensure(heads.count * seen), context + row * context_stride));
            continue;
        }
        count = adjacent(row);
        const int64_t most = seen + count - 1;
        CachedAttention together = single_query(projected + row * stride, offsets, seen, nullptr, ws.weights.ensure(std::max(heads.count, heads.group * count) * most), context + row * context_stride);
        together.queries = count;
        together.window = window;
        together.query_stride = stride;
        together.context_stride = context_stride;
        attend_keys(model, heads, model.shape.float16_cache, layer_of(token, l), together);
    }
    return context;
}

void PromptPart::run_layer(std::size_t l, float* x) {
    const DecoderLayer& layer = model.decoder[l];
    const bool last = l + 1 == model.decoder.size();  // needs only keys and values
    float* projected = project(layer, x, !last);
    write_keys_values(l, !last, projected);
    if (last) return;
    slice.wait();  // until the keys and values of all rows are written
    const int64_t inner = model.shape.decoder.inner();
    Rows attended = rows_of(ws, attend(l, projected), rows, inner, stride_of(inner));
    block_output(model, layer.self_output, layer.self_norm, attended, x, ws, ws, ThreadSlice{});
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
    turns_of(model, positions, rows, ws);
    embed_rows(model, model.target, tokens, positions, rows, x, ws);
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

// What comes before the tokens that a prompt has still to read: the first `length` tokens of another.
struct Before {
    std::shared_ptr<const Prompt> prompt = {};  // null: nothing
    int64_t length = 0;

    bool whole() const { return prompt && length == static_cast<int64_t>(prompt->offsets.size()); }
};

// Plans where the tokens of prompts are read to. A beginning that several prompts share is read once, into a store of its
// own on which theirs follow; they may be prompts of this call or of earlier ones.
struct PromptPlan {
    Memory& memory;
    const std::vector<std::vector<int32_t>>& prompts;
    std::vector<PromptToken> all = {};  // every token after those before it in its prompt
    struct Beginning {
        std::size_t of;  // a prompt that has it
        std::shared_ptr<Prompt> read;
    };
    std::vector<Beginning> beginnings = {};
    Before last = {};  // of the last prompt

    auto read_end(std::size_t prompt) const { return prompts[prompt].end() - 1; }
    void extend(Prompt& made, const Before& before, std::size_t prompt, int64_t length);
    void share(const std::size_t* first, const std::size_t* end, Before before);
    void run();
    void remember();
};

// Read the first `length` tokens of a prompt, except those before.
void PromptPlan::extend(Prompt& made, const Before& before, std::size_t prompt, int64_t length) {
    const Model& model = *memory.model;
    made.store = std::make_shared<KeyValueStore>(model.pages, model.key_value_width(), model.cache_element_size(), before.prompt ? before.prompt->store : nullptr);
    if (before.prompt) made.offsets.assign(before.prompt->offsets.begin(), before.prompt->offsets.begin() + before.length);
    made.offsets.resize(static_cast<std::size_t>(length));
    made.store->take(length - before.length, made.offsets.data() + before.length, 1);
    for (int64_t at = before.length; at < length; ++at) all.push_back({&made, prompts[prompt][static_cast<std::size_t>(at)], static_cast<int32_t>(at)});
}

// The same for sorted prompts, all of which begin with the tokens before.
void PromptPlan::share(const std::size_t* first, const std::size_t* end, Before before) {
    const bool alone = end - first == 1;
    const auto lowest = prompts[*first].begin(), highest = prompts[end[-1]].begin();
    const int64_t common = std::mismatch(lowest, read_end(*first), highest, read_end(end[-1])).first - lowest;
    const Beginnings::Known known = memory.model->beginnings.known(prompts[*first].data(), common);
    if (known.read >= before.length + page_entries) before = {known.kept, known.read};
    const int64_t shared = alone ? std::min(known.seen, Beginnings::most_tokens) : common;
    if (shared >= before.length + page_entries) {
        beginnings.push_back({*first, std::make_shared<Prompt>()});
        extend(*beginnings.back().read, before.whole() ? before : Before{}, *first, shared);
        before = {beginnings.back().read, shared};
    }
    if (alone) {
        extend(memory.prompts[*first], before, *first, common);
        if (*first + 1 == prompts.size()) last = before;
        return;
    }
    for (const std::size_t* next = first; first < end; first = next) {
        ++next;
        if (read_end(*first) - prompts[*first].begin() > common) {
            const std::size_t at = static_cast<std::size_t>(common);
            while (next < end && prompts[*next][at] == prompts[*first][at]) ++next;
        }
        share(first, next, before);
    }
}

void PromptPlan::run() {
    std::vector<std::size_t> order(prompts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
        return std::lexicographical_compare(prompts[a].begin(), read_end(a), prompts[b].begin(), read_end(b));
    });
    if (!order.empty()) share(order.data(), order.data() + order.size(), {});
}

// Keep the beginnings, now that they are read, and the last prompt's tokens for later calls.
void PromptPlan::remember() {
    Beginnings& kept = memory.model->beginnings;
    for (auto made = beginnings.rbegin(); made != beginnings.rend(); ++made) {
        const auto tokens = prompts[made->of].begin();
        kept.remember({tokens, tokens + static_cast<std::ptrdiff_t>(made->read->offsets.size())}, made->read);
    }
    if (!prompts.empty()) kept.remember({prompts.back().begin(), read_end(prompts.size() - 1)}, last.whole() ? last.prompt : nullptr);
}

}  // namespace

Memory read_prompts(const ModelPtr& model, const std::vector<std::vector<int32_t>>& prompts) {
    Memory memory{model, std::vector<EncodedSentence>(prompts.size()), std::vector<Prompt>(prompts.size())};
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        const int64_t size = static_cast<int64_t>(prompts[i].size());
        check_tables(*model, AttentionKind::decoder, size - 1, size);
        memory.prompts[i].last = prompts[i].back();
    }
    PromptPlan plan{memory, prompts};
    plan.run();
    const int64_t rows = static_cast<int64_t>(plan.all.size()), worthwhile = std::max<int64_t>(1, rows / least_prompt_rows);
    if (worthwhile == 1) run_all(*model, plan.all, 1, ThreadSlice{});
    else model->workers.run_team([&](const ThreadSlice& slice) { run_all(*model, plan.all, std::min(slice.count, worthwhile), slice); });
    plan.remember();
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
