// Memories (encoded sources) and decoder states. Both are values: operations return new ones and change none.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/pages.h"

namespace uwaga {

class Network;
using NetworkPtr = std::shared_ptr<const Network>;
using Tokens = std::vector<int32_t>;

// What the steps of a sentence read of the encoder, for the sentences of a group: in a Transformer the keys
// and values of cross-attention, [layer][row][key, value]; see recurrent/network.h for the other networks.
struct Chunk {
    Chunk(PagePool& pages, int64_t bytes, int64_t count)
        : pool(pages), page(pages.take(bytes)), rows(count) {}
    ~Chunk() { pool.release(page); }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    PagePool& pool;  // the network's; every owner of a chunk keeps the network alive
    const Page page;
    const int64_t rows;
};

// The target tokens allowed for a sentence, ascending, and the output layer's parameters of each besides the
// weights; output/shortlist.h makes them.
struct Allowed {
    Tokens tokens;
    std::shared_ptr<const Buffer<uint8_t>> weights;  // of the whole vocabulary, token by token
    std::vector<float> scales, biases;               // empty without scales or without a bias
    std::vector<int32_t> sums;
};
using AllowedPtr = std::shared_ptr<const Allowed>;

constexpr int64_t max_neighbours = 16;

// Features of decoder states, and the token that followed each. The distributions of a sentence with a
// datastore are mixed with the tokens of the nearest ones: see uwaga.decoder.Datastore.
struct Datastore {
    int64_t width = 0;
    Buffer<float> keys;                  // (entries, width)
    Tokens tokens;                       // (entries,)
    double radius = 0, temperature = 0;  // of squared distances
    int64_t neighbours = 0;
};
using DatastorePtr = std::shared_ptr<const Datastore>;

// A prompt as read by a decoder-only network: all but the last token, which the first step reads.
struct Prompt {
    std::shared_ptr<KeyValueStore> store;  // shared by all states that start from the prompt
    std::vector<int64_t> offsets;          // from the store's base to each token's key
    int32_t last = 0;
};

struct EncodedSentence {
    std::shared_ptr<const Chunk> chunk;   // null in a decoder-only network
    int64_t first = 0, length = 0;        // rows of the chunk; `length` tokens
    AllowedPtr allowed = {};              // its shortlist; null: the whole vocabulary
    int64_t number = 0;                   // index within the chunk, in a recurrent encoder-decoder
    std::shared_ptr<Prompt> prompt = {};  // in a decoder-only network
    DatastorePtr datastore = {};          // null: none
};

struct Memory {
    NetworkPtr network;
    std::vector<EncodedSentence> sentences;
};

// A decoder state. The rows of a sentence are adjacent; each row has a table that locates its keys.
struct State {
    struct Sentence {
        EncodedSentence memory;
        std::shared_ptr<KeyValueStore> store;  // null in a recurrent network
        int64_t position = 0;
        int32_t prompt_token = -1;  // a prompt's last token, which the next step reads instead of its input
                                    // token
    };
    NetworkPtr network;
    int64_t beams = 1;
    std::vector<Sentence> sentences;
    int64_t stride = 0;           // entries per row of the tables
    std::vector<int64_t> tables;  // (rows, stride): offsets from the store's base to the key of each position
    std::vector<float> cells = {};  // (rows, cells) in a recurrent network, which has no stores or tables

    int64_t rows() const { return static_cast<int64_t>(sentences.size()) * beams; }
    // Whether the sentences have shortlists: all or none.
    bool has_shortlist() const { return !sentences.empty() && sentences.front().memory.allowed; }
};

// A sequence has more tokens than the network has positions.
struct TooLong : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};
TooLong too_long(const Network& network, int64_t positions);

State reorder(const State& state, const int64_t* rows, int64_t count);
State select(const State& state, const int64_t* sentences, int64_t count);
State join(const std::vector<const State*>& states);
State admit(State state, const Memory& memory);  // join(state, start of the memory), reusing `state`
// Replace the tokens (rows,) fed to rows without a step yet. With `first`, sentence s has rows from first[s]
// on.
void feed_last_prompt_tokens(const State& state, int32_t* tokens, const int64_t* first = nullptr);

// Parts of Network::start and Network::step: a state without sentences, and the sentences one position
// further on, with room for cells and without tables.
State empty_state(const Memory& memory, int64_t beams);
State at_next_position(const State& state);

}  // namespace uwaga
