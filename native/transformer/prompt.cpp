// Prompts of a decoder-only model, processed in blocks: packed rows with causal attention, no padding.
//
// Threads divide the rows of a block. A row needs only the keys and values of the others, so there is one
// barrier per layer. Results are bit-identical to those of steps, token by token.
#include <algorithm>
#include <numeric>
#include <utility>

#include "transformer/blocks.h"
#include "transformer/encoder.h"

namespace uwaga {

namespace {

constexpr int64_t min_prompt_rows = 8;  // minimum per thread: with fewer, one more thread would read all
                                        // weights for little
constexpr int64_t spare_entries = 32;   // extra table entries after a prompt, so that the first steps need no
                                        // wider one

// One token of a prompt.
struct PromptToken {
    const Prompt* prompt;
    int32_t token, position;
};

// One thread's rows of a block.
struct PromptRows {
    const Transformer& model;
    const PromptToken* prompt_tokens;
    int64_t rows;
    Workspace& ws;
    const ThreadSlice& slice;

    uint8_t* layer_base(const PromptToken& token, std::size_t l) const {
        return token.prompt->store->base() +
               static_cast<int64_t>(l) * token.prompt->store->layer_stride() * model.cache_element_size();
    }
    void run();
    void run_layer(std::size_t l, float* x);
    float* project(const DecoderLayer& layer, float* x, bool queries);
    void write_keys_values(std::size_t l, bool queries, float* projected);
    const float* attend(std::size_t l, const float* projected);
    int64_t adjacent(int64_t row) const;
};

// (rows, query | key | value). Without queries, the panels before the keys are skipped.
float* PromptRows::project(const DecoderLayer& layer, float* x, bool queries) {
    const int64_t inner = model.shape.decoder.inner(),
                  projected_stride = stride_of(model.shape.decoder.projected_width());
    float* projected = ws.projected.ensure(rows * projected_stride);
    Rows in = block_input(model, layer.self_norm, x, rows, ws);
    const Matrix& complete = layer.query_key_value.weight;
    const int64_t first = queries ? 0 : inner / panel;
    Epilogue plain;
    if (layer.query_key_value.bias) plain.bias = layer.query_key_value.bias + first * panel;
    product(*model.kernels, in, panel_range(complete, first, padded_outputs(complete.outputs()) / panel),
            plain, projected + first * panel, projected_stride);
    return projected;
}

// Rotate queries and keys, and store keys and values.
void PromptRows::write_keys_values(std::size_t l, bool queries, float* projected) {
    const Heads& heads = model.shape.decoder;
    const int64_t inner = heads.inner(), stride = stride_of(heads.projected_width()),
                  angle_stride = static_cast<int64_t>(model.rotary.size()) * heads.width;
    for (int64_t row = 0; row < rows; ++row) {
        const PromptToken& token = prompt_tokens[row];
        normalise_and_rotate(model, model.decoder[l], ws.angles.get() + row * angle_stride, queries,
                             projected + row * stride);
        const int64_t offset = token.prompt->offsets[static_cast<std::size_t>(token.position)];
        store_key_value(model, projected + row * stride + inner,
                        layer_base(token, l) + offset * model.cache_element_size());
    }
}

// The number of rows from this one on that are consecutive tokens of a prompt, at most as many as attend
// together.
int64_t PromptRows::adjacent(int64_t row) const {
    int64_t count = 1;
    while (count < queries_at_once && row + count < rows &&
           prompt_tokens[row + count].prompt == prompt_tokens[row].prompt)
        ++count;
    return count;
}

const float* PromptRows::attend(std::size_t l, const float* projected) {
    const Heads& heads = model.shape.decoder;
    const int64_t window = model.decoder[l].window;
    const int64_t stride = stride_of(heads.projected_width()), context_stride = stride_of(heads.inner());
    float* context = ws.context.ensure(rows * context_stride);
    for (int64_t row = 0, count = 1; row < rows; row += count) {
        const PromptToken& token = prompt_tokens[row];
        const int64_t length = token.position + 1, visible = std::min(length, window),
                      skipped = length - visible;
        const int64_t* offsets = token.prompt->offsets.data() + skipped;
        if (model.edits) {
            attend_cached(model, heads,
                          {AttentionKind::decoder, static_cast<int64_t>(l), length - 1, skipped},
                          layer_base(token, l),
                          single_query(projected + row * stride, offsets, visible, nullptr,
                                       ws.weights.ensure(heads.count * visible),
                                       context + row * context_stride));
            continue;
        }
        count = adjacent(row);
        const int64_t keys = visible + count - 1;
        CachedAttention attention = single_query(projected + row * stride, offsets, visible, nullptr,
                                                 ws.weights.ensure(std::max(heads.count,
                                                                            heads.group * count) *
                                                                   keys),
                                                 context + row * context_stride);
        attention.queries = count;
        attention.window = window;
        attention.query_stride = stride;
        attention.context_stride = context_stride;
        attend_keys(model, heads, model.shape.float16_cache, layer_base(token, l), attention);
    }
    return context;
}

void PromptRows::run_layer(std::size_t l, float* x) {
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

void PromptRows::run() {
    if (!rows) {
        for (std::size_t l = 0; l + 1 < model.decoder.size(); ++l) slice.wait();
        return;
    }
    int32_t* tokens = ws.tokens.ensure(rows);
    int32_t* positions = ws.positions.ensure(rows);
    for (int64_t row = 0; row < rows; ++row) {
        tokens[row] = prompt_tokens[row].token;
        positions[row] = prompt_tokens[row].position;
    }
    float* x = ws.x.ensure(rows * stride_of(model.width));
    rotary_angles(model, positions, rows, ws);
    embed_rows(model, model.target, tokens, positions, rows, x, ws);
    for (std::size_t l = 0; l < model.decoder.size(); ++l) run_layer(l, x);
}

// Process all tokens in blocks in which each of `members` threads has at most group_rows. A prompt may span
// blocks, because tokens attend only to earlier ones.
void run_all(const Transformer& model, const std::vector<PromptToken>& tokens, int64_t members,
             const ThreadSlice& slice) {
    WorkspacePool::Loan ws(model.workspaces);
    const int64_t rows = static_cast<int64_t>(tokens.size());
    const int64_t blocks = (rows + members * group_rows - 1) / (members * group_rows);
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t start = rows * block / blocks, count = rows * (block + 1) / blocks - start;
        const int64_t part = std::min(slice.index, members), next_part = std::min(slice.index + 1, members);
        const int64_t first = start + count * part / members, last = start + count * next_part / members;
        PromptRows{model, tokens.data() + first, last - first, *ws, slice}.run();
    }
}

// The part of a prompt that is computed already: the first `length` tokens of another prompt.
struct Prefix {
    std::shared_ptr<const Prompt> prompt = {};  // null: nothing
    int64_t length = 0;

    bool complete() const { return prompt && length == static_cast<int64_t>(prompt->offsets.size()); }
};

// Plans the stores of the tokens of prompts. A prefix that several prompts share is computed once, into a
// separate store that their stores continue; they may be prompts of this call or of earlier ones.
struct PromptPlan {
    const Transformer& model;
    std::vector<EncodedSentence>& sentences;
    const std::vector<Tokens>& prompts;
    std::vector<PromptToken> tokens = {};  // each after the earlier tokens of its prompt
    struct SharedPrefix {
        std::size_t index;  // index of a prompt that has it
        std::shared_ptr<Prompt> prompt;
    };
    std::vector<SharedPrefix> shared_prefixes = {};
    Prefix last_prefix = {};  // of the last prompt

    auto prompt_end(std::size_t prompt) const { return prompts[prompt].end() - 1; }
    void extend(Prompt& target, const Prefix& prefix, std::size_t prompt, int64_t length);
    void share(const std::size_t* first, const std::size_t* end, Prefix prefix);
    void run();
    void remember();
};

// Plan the first `length` tokens of a prompt, except those of the prefix.
void PromptPlan::extend(Prompt& target, const Prefix& prefix, std::size_t prompt, int64_t length) {
    target.store = std::make_shared<KeyValueStore>(model.pages, model.key_value_width(),
                                                   model.cache_element_size(),
                                                   prefix.prompt ? prefix.prompt->store : nullptr);
    if (prefix.prompt)
        target.offsets.assign(prefix.prompt->offsets.begin(), prefix.prompt->offsets.begin() + prefix.length);
    target.offsets.resize(static_cast<std::size_t>(length));
    target.store->take(length - prefix.length, target.offsets.data() + prefix.length, 1);
    for (int64_t position = prefix.length; position < length; ++position)
        tokens.push_back({&target, prompts[prompt][static_cast<std::size_t>(position)],
                          static_cast<int32_t>(position)});
}

// The same for sorted prompts, all of which start with the prefix.
void PromptPlan::share(const std::size_t* first, const std::size_t* end, Prefix prefix) {
    const bool single = end - first == 1;
    const auto lowest = prompts[*first].begin(), highest = prompts[end[-1]].begin();
    const int64_t common = std::mismatch(lowest, prompt_end(*first), highest, prompt_end(end[-1])).first -
                           lowest;
    const PromptCache::Match match = model.prompt_cache.find(prompts[*first].data(), common);
    if (match.cached >= prefix.length + page_entries) prefix = {match.prompt, match.cached};
    const int64_t shared = single ? std::min(match.repeated, PromptCache::max_tokens) : common;
    if (shared >= prefix.length + page_entries) {
        shared_prefixes.push_back({*first, std::make_shared<Prompt>()});
        extend(*shared_prefixes.back().prompt, prefix.complete() ? prefix : Prefix{}, *first, shared);
        prefix = {shared_prefixes.back().prompt, shared};
    }
    if (single) {
        extend(*sentences[*first].prompt, prefix, *first, common);
        if (*first + 1 == prompts.size()) last_prefix = prefix;
        return;
    }
    for (const std::size_t* next = first; first < end; first = next) {
        ++next;
        if (prompt_end(*first) - prompts[*first].begin() > common) {
            const std::size_t position = static_cast<std::size_t>(common);
            while (next < end && prompts[*next][position] == prompts[*first][position]) ++next;
        }
        share(first, next, prefix);
    }
}

void PromptPlan::run() {
    std::vector<std::size_t> order(prompts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
        return std::lexicographical_compare(prompts[a].begin(), prompt_end(a), prompts[b].begin(),
                                            prompt_end(b));
    });
    if (!order.empty()) share(order.data(), order.data() + order.size(), {});
}

// Cache the shared prefixes, which are computed now, and the last prompt's tokens for later calls.
void PromptPlan::remember() {
    PromptCache& cache = model.prompt_cache;
    for (auto shared = shared_prefixes.rbegin(); shared != shared_prefixes.rend(); ++shared) {
        const auto tokens = prompts[shared->index].begin();
        cache.remember({tokens, tokens + static_cast<std::ptrdiff_t>(shared->prompt->offsets.size())},
                       shared->prompt);
    }
    if (!prompts.empty())
        cache.remember({prompts.back().begin(), prompt_end(prompts.size() - 1)},
                       last_prefix.complete() ? last_prefix.prompt : nullptr);
}

}  // namespace

Memory read_prompts(const Transformer& model, const std::vector<Tokens>& prompts) {
    Memory memory{model.shared_from_this(), std::vector<EncodedSentence>(prompts.size())};
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        EncodedSentence& sentence = memory.sentences[i];
        sentence.length = static_cast<int64_t>(prompts[i].size());
        check_tables(model, AttentionKind::decoder, sentence.length - 1, sentence.length);
        sentence.prompt = std::make_shared<Prompt>();
        sentence.prompt->last = prompts[i].back();
    }
    PromptPlan plan{model, memory.sentences, prompts};
    plan.run();
    const int64_t rows = static_cast<int64_t>(plan.tokens.size()),
                  useful_members = std::max<int64_t>(1, rows / min_prompt_rows);
    if (useful_members == 1) run_all(model, plan.tokens, 1, ThreadSlice{});
    else
        model.workers.run_team([&](const ThreadSlice& slice) {
            run_all(model, plan.tokens, std::min(slice.count, useful_members), slice);
        });
    plan.remember();
    return memory;
}

void start_after_prompts(const Memory& memory, State& state) {
    for (const EncodedSentence& sentence : memory.sentences) {
        const Prompt& prompt = *sentence.prompt;
        const int64_t length = static_cast<int64_t>(prompt.offsets.size());
        EncodedSentence encoded;  // without the prompt, whose keys the state has
        encoded.datastore = sentence.datastore;
        state.sentences.push_back({std::move(encoded), prompt.store, length, prompt.last});
        state.stride = std::max(state.stride, length + spare_entries);
    }
    state.tables.resize(static_cast<std::size_t>(state.rows() * state.stride));
    for (int64_t row = 0; row < state.rows(); ++row) {
        const std::vector<int64_t>& offsets = memory.sentences[static_cast<std::size_t>(row / state.beams)]
                                                  .prompt->offsets;
        std::copy(offsets.begin(), offsets.end(), state.tables.data() + row * state.stride);
    }
}

}  // namespace uwaga
