// What is computed of sentences: memories and states. Values, each made from another that stays as it was.
#pragma once

#include <memory>
#include <stdexcept>
#include <vector>

#include "output/request.h"
#include "output/shortlist.h"
#include "runtime/pages.h"
#include "transformer/model.h"

namespace uwaga {

// One sentence's keys and values lie in the chunk of its encoder group: [layer][row][key, value].
struct Chunk {
    Chunk(PagePool& from, int64_t bytes, int64_t count) : pool(from), page(from.take(bytes)), rows(count) {}
    ~Chunk() { pool.give(page); }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    PagePool& pool;  // of the model, which whatever holds a chunk holds too
    const Page page;
    const int64_t rows;
};

struct EncodedSentence {
    std::shared_ptr<const Chunk> chunk;
    int64_t first = 0, length = 0;  // rows of the chunk
    AllowedPtr allowed = {};        // what it may become; null: anything
};

// What a decoder-only model has read of a prompt: all of it but the last token, which the first step reads.
struct Prompt {
    std::shared_ptr<KeyValueStore> store;  // of all states that start from here
    std::vector<int64_t> offsets;          // from the store's base to the key of each token
    int32_t last = 0;
};

struct Memory {
    ModelPtr model;
    std::vector<EncodedSentence> sentences;
    std::vector<Prompt> prompts = {};  // of a decoder-only model, whose sentences are empty
};

// A decoder's state: a value. Rows of a sentence stand side by side; each has a table of where its keys are.
struct State {
    struct Sentence {
        EncodedSentence memory;
        std::shared_ptr<KeyValueStore> store;  // null in a recurrent model
        int64_t position = 0;
        int32_t first = -1;  // a prompt's last token, which the next step reads whatever it is given
    };
    ModelPtr model;
    int64_t beams = 1;
    std::vector<Sentence> sentences;
    int64_t stride = 0;           // of tables
    std::vector<int64_t> tables;  // (rows, stride): offsets from the store's base to the key of each position
    std::vector<float> cells = {};  // (rows, layers, width) of a recurrent model, which has no stores and no tables

    int64_t rows() const { return static_cast<int64_t>(sentences.size()) * beams; }
    bool listed() const { return !sentences.empty() && sentences.front().memory.allowed; }  // or none of them is
};

// More tokens than the model has positions.
struct TooLong : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

Memory encode(const ModelPtr& model, const std::vector<std::vector<int32_t>>& sources);
// What every decoder layer reads of encodings x, (rows, stride).
std::shared_ptr<const Chunk> keys_and_values(const Model& model, const float* x, int64_t rows, Workspace& ws);
Memory read_prompts(const ModelPtr& model, const std::vector<std::vector<int32_t>>& prompts);
State start(const Memory& memory, int64_t beams);
State start_after(const std::vector<Prompt>& prompts, State state);  // a state of no sentences yet
State reorder(const State& state, const int64_t* rows, int64_t count);
State select(const State& state, const int64_t* sentences, int64_t count);
State join(const std::vector<const State*>& states);
State admit(State state, const Memory& memory);  // join of a state that nobody needs any more and the start of a memory
void feed_last_of_prompts(const State& state, int32_t* tokens);  // (rows,): of a state that no step has been made from
State step(const State& state, const int32_t* tokens, const Request& request, const Answer& answer);

}  // namespace uwaga
