// The Transformer's weights and shape: read-only once built, shared by all threads.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "transformer/matrix.h"
#include "output/shortlist.h"
#include "runtime/pages.h"
#include "runtime/workers.h"
#include "runtime/workspace.h"

namespace uwaga {

struct Linear {
    Matrix weight;
    const float* bias = nullptr;
};
struct Norm {
    const float* gain = nullptr;
    const float* bias = nullptr;
};
struct FeedForward {
    Linear inner, gate, outer;  // gate is none unless the model is gated
    Norm norm;
};
struct EncoderLayer {
    Linear query_key_value, attended;
    Norm attention_norm;
    FeedForward feed_forward;
};
struct DecoderLayer {
    Linear query_key_value, attended;
    Norm self_norm;
    Linear query, key_value, crossed;  // of a source; none in a decoder alone
    Norm cross_norm;
    FeedForward feed_forward;
};
struct Side {
    Matrix embedding;
    const float* positions = nullptr;  // (max_length, width) or null
    const float* distances = nullptr;  // (heads, 2 * reach + 1): bias of the scores by key - query, or null
    Norm norm;                         // behind the embeddings, or none
};

struct Shape {
    int64_t width = 0, max_length = 0;
    int64_t encoder_heads = 0, encoder_head_width = 0, decoder_heads = 0, decoder_head_width = 0;
    int64_t shared_width = 0;  // of a model whose matrices are worth the threads' waiting for each other
    int64_t reach = 0;  // of relative positions: distances beyond it are alike
    bool pre_norm = false, rms = false, half_memory = false;
    float epsilon = 1e-5f, embedding_scale = 1, output_scale = 1, encoder_scale = 1, decoder_scale = 1;
    Activation activation = Activation::relu;

    int64_t encoder_inner() const { return encoder_heads * encoder_head_width; }
    int64_t decoder_inner() const { return decoder_heads * decoder_head_width; }
};

struct Model {
    Shape shape;
    const Kernels* kernels = nullptr;
    Side source, target;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    Norm encoder_norm, decoder_norm;  // of pre-norm models
    Matrix output_weight;
    const float* output_bias = nullptr;
    int64_t source_vocabulary = 0, target_vocabulary = 0;

    std::vector<Buffer<float>> vectors;  // what the pointers above point into
    mutable PagePool pages, chunks;
    mutable WorkspacePool workspaces;
    mutable Workers workers;

    bool has_source() const { return source_vocabulary > 0; }      // or it continues prompts
    int64_t element() const { return shape.half_memory ? 2 : 4; }  // bytes of a key's or value's number
    int64_t entry() const { return 2 * shape.decoder_inner(); }    // numbers of one key and value
};

constexpr int64_t group_rows = 256;  // tokens that are encoded together, unless one sentence has more

using ModelPtr = std::shared_ptr<const Model>;

// One sentence's keys and values lie in the chunk of its encoder group: [layer][row][key, value].
struct Chunk {
    Chunk(PagePool& from, int64_t bytes, int64_t count) : pool(from), data(from.take(bytes)), rows(count) {}
    ~Chunk() { pool.give(std::move(data)); }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    PagePool& pool;  // of the model, which whatever holds a chunk holds too
    Buffer<uint8_t> data;
    const int64_t rows;
};

struct Encoded {
    std::shared_ptr<const Chunk> chunk;
    int64_t first = 0, length = 0;  // rows of the chunk
    TokensPtr allowed = {};         // what it may become, rising; null: anything
};

// What a decoder without a source has read of a prompt: all of it but the last token, which the first step reads.
struct Prompt {
    std::shared_ptr<Store> store;  // of all states that start from here
    std::vector<int64_t> where;    // from the store's base to the key of each token
    int32_t last = 0;
};

struct Memory {
    ModelPtr model;
    std::vector<Encoded> sentences;
    GatheredPtr common = {};           // where sentences have lists
    std::vector<Prompt> prompts = {};  // of a model without a source, whose sentences are empty
};

// A decoder's state: a value. Rows of a sentence stand side by side; each has a table of where its keys are.
struct State {
    struct Sentence {
        Encoded memory;
        std::shared_ptr<Store> store;
        int64_t position = 0;
        TokensPtr columns = {};  // of what it may become, in `gathered`
        int32_t first = -1;      // a prompt's last token, which the next step reads whatever it is given
    };
    ModelPtr model;
    int64_t beams = 1;
    std::vector<Sentence> sentences;
    int64_t stride = 0;           // of tables
    std::vector<int64_t> tables;  // (rows, stride): numbers from the store's base to the key of each position
    GatheredPtr gathered = {};    // where sentences have lists

    int64_t rows() const { return static_cast<int64_t>(sentences.size()) * beams; }
};

// More tokens than the model has positions.
struct TooLong : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

Memory encode(const ModelPtr& model, const std::vector<std::vector<int32_t>>& sources);
Memory read_prompts(const ModelPtr& model, const std::vector<std::vector<int32_t>>& prompts);
State start_behind(const std::vector<Prompt>& prompts, State state);  // a state of no sentences yet
void put_last_of_prompts(const State& state, int32_t* tokens);  // (rows,)
State start(const Memory& memory, int64_t beams);
State reorder(const State& state, const int64_t* rows, int64_t count);
State select(const State& state, const int64_t* sentences, int64_t count);
State join(const std::vector<const State*>& states);

// What search asks of a step, checked: see uwaga.contracts.Choice.
struct Request {
    int64_t count = 1;
    bool whole = false, attention = false, renormalise = false;
    std::vector<int32_t> banned;          // rising within a row
    std::vector<int32_t> banned_first;    // (rows + 1) into banned
    const int64_t* forced = nullptr;      // (rows,) or null
    const double* uniform = nullptr;      // (rows,) or null
    double temperature = 1, top_p = 1;
    int64_t top_k = 0;
};

constexpr int64_t output_chunks = 4;       // of the vocabulary, whatever the threads: sums are made chunk by chunk
constexpr int64_t least_chunk_panels = 64;  // of a chunk; a smaller vocabulary is one

struct Answer {
    int64_t* tokens = nullptr;   // (rows, k); not set where the whole vocabulary is asked for
    float* log_probs = nullptr;  // (rows, k)
    int64_t k = 0;
    float* attention = nullptr;  // (rows, attention_width) or null
    int64_t attention_width = 0;

    void put(int64_t row, int64_t i, int32_t token, double log_prob) const {
        tokens[row * k + i] = token;
        log_probs[row * k + i] = static_cast<float>(log_prob);
    }
};

State step(const State& state, const int32_t* tokens, const Request& request, const Answer& answer);

// The parts that encoder and decoder share.
void normalise(const Model& model, const Norm& norm, float* x, int64_t rows, float* y);
void settle(const Model& model, const Norm& norm, float* y, int64_t rows, float* x);
// x is the thread's own; what a team makes together lies in `shared`, whose buffers are large enough already.
void feed_forward(const Model& model, const FeedForward& layer, float* x, int64_t rows, Workspace& ws, Workspace& shared, const Share& share);
int64_t stride_of(int64_t width);  // of float rows
Rows rows_of(Workspace& ws, const float* x, int64_t rows, int64_t width, int64_t stride);
void embed_rows(const Model& model, const Side& side, const int32_t* tokens, const int32_t* positions, int64_t rows, float* x);
const float* distance_bias(const Side& side, int64_t heads, int64_t reach, int64_t query, int64_t length, Workspace& ws);
// A decoder's query over keys and values in the model's number format, and the writing of them.
void attend_entries(const Model& model, const float* query, const uint8_t* keys, const int64_t* where, int64_t length, const float* bias, float* weights, float* context);
void write_entry(const Model& model, const float* key_value, uint8_t* to);

// The candidates of rows of a state whose features are in `in`.
void choose(const Model& model, Rows& in, int64_t first_row, const Request& request, const Answer& answer, const State& state, Workspace& ws, Workspace& shared, const Share& share);

}  // namespace uwaga
