// Memories (encoded sources) and decoder states. Both are values: operations return new ones and change none.
#pragma once

#include <memory>
#include <stdexcept>
#include <vector>

#include "output/request.h"
#include "output/shortlist.h"
#include "runtime/pages.h"
#include "transformer/model.h"

namespace uwaga {

// The cross-attention keys and values of the sentences of an encoder group: [layer][row][key, value].
struct Chunk {
    Chunk(PagePool& pages, int64_t bytes, int64_t count)
        : pool(pages), page(pages.take(bytes)), rows(count) {}
    ~Chunk() { pool.give(page); }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    PagePool& pool;  // the model's; every owner of a chunk keeps the model alive
    const Page page;
    const int64_t rows;
};

struct EncodedSentence {
    std::shared_ptr<const Chunk> chunk;
    int64_t first = 0, length = 0;  // rows of the chunk
    AllowedPtr allowed = {};        // its shortlist; null: the whole vocabulary
    int64_t number = 0;             // index within the chunk, in a recurrent encoder-decoder
};

// A prompt as read by a decoder-only model: all but the last token, which the first step reads.
struct Prompt {
    std::shared_ptr<KeyValueStore> store;  // shared by all states that start from the prompt
    std::vector<int64_t> offsets;          // from the store's base to each token's key
    int32_t last = 0;
};

struct Memory {
    ModelPtr model;
    std::vector<EncodedSentence> sentences;
    std::vector<Prompt> prompts = {};  // decoder-only models; their `sentences` have no chunks
};

// A decoder state. The rows of a sentence are adjacent; each row has a table that locates its keys.
struct State {
    struct Sentence {
        EncodedSentence memory;
        std::shared_ptr<KeyValueStore> store;  // null in a recurrent model
        int64_t position = 0;
        int32_t prompt_token = -1;  // a prompt's last token, which the next step reads instead of its input
                                    // token
    };
    ModelPtr model;
    int64_t beams = 1;
    std::vector<Sentence> sentences;
    int64_t stride = 0;           // entries per row of the tables
    std::vector<int64_t> tables;  // (rows, stride): offsets from the store's base to the key of each position
    std::vector<float> cells = {};  // (rows, cells) in a recurrent model, which has no stores or tables

    int64_t rows() const { return static_cast<int64_t>(sentences.size()) * beams; }
    // Whether the sentences have shortlists: all or none.
    bool listed() const { return !sentences.empty() && sentences.front().memory.allowed; }
};

// A sequence has more tokens than the model has positions.
struct TooLong : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

Memory encode(const ModelPtr& model, const std::vector<std::vector<int32_t>>& sources);
// Throw EditMismatch if a table of the model's edits does not fit a source.
void check_sources(const Model& model, const std::vector<std::vector<int32_t>>& sources);
// The keys and values of all decoder layers for encodings x, (rows, stride).
std::shared_ptr<const Chunk> keys_and_values(const Model& model, const float* x, int64_t rows, Workspace& ws);
Memory read_prompts(const ModelPtr& model, const std::vector<std::vector<int32_t>>& prompts);
State start(const Memory& memory, int64_t beams);
State start_after(const std::vector<Prompt>& prompts, State state);  // `state` has no sentences yet
State reorder(const State& state, const int64_t* rows, int64_t count);
State select(const State& state, const int64_t* sentences, int64_t count);
State join(const std::vector<const State*>& states);
State admit(State state, const Memory& memory);  // join(state, start of the memory), reusing `state`
// Replace the tokens (rows,) fed to rows without a step yet. With `first`, sentence s has rows from first[s]
// on.
void feed_last_prompt_tokens(const State& state, int32_t* tokens, const int64_t* first = nullptr);
State step(const State& state, const int32_t* tokens, const Request& request, const Answer& answer);
// Feed several tokens to each sentence of a state with one beam (M42): rows [first[s], first[s + 1]) to
// sentence s. The next state has a sentence for each row: it is the state after that row's token, bit for bit
// that of steps.
State verify(const State& state, const std::vector<int64_t>& first, const int32_t* tokens,
             const Request& request, const Answer& answer);
bool can_verify(const Model& model);

}  // namespace uwaga
