// The interface of a network: a Transformer or a recurrent encoder-decoder. Search, the bindings and the C
// library call these functions and know nothing else of a model.
//
//     encode ─→ Memory ─→ start ─→ State ─→ step ─→ State ─→ step …
//
// Memories and states are values (network/state.h): reorder, select and join make new ones. A call computes a
// whole batch. A network is read-only once built, and shared by all threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "network/edits.h"
#include "network/insight.h"
#include "network/matrix.h"
#include "network/request.h"
#include "network/state.h"
#include "runtime/buffer.h"
#include "runtime/pages.h"
#include "runtime/workers.h"
#include "runtime/workspace.h"

namespace uwaga {

struct AttentionLayers {
    int64_t layers = 0, heads = 1;  // no layers: no such attention
};

// What every network has; a copy shares the matrices and vectors.
struct NetworkProperties {
    const Kernels* kernels = nullptr;
    int64_t source_vocabulary = 0, target_vocabulary = 0;
    int64_t max_length = 0;    // of a source, and of a target or a prompt with its continuation
    int64_t width = 0;         // of the features that the output layer reads
    int64_t shared_width = 0;  // minimum width at which sharing a matrix is worth the threads' waiting
    int64_t cells = 0;         // recurrent state per row: numbers
    int64_t token_bytes = 0;   // of a memory for a source token; at most of a state for a target token
    int64_t row_bytes = 0;     // of a state for a row besides
    AttentionLayers encoder_attention, decoder_attention, cross_attention;
    Matrix output_weight;
    const float* output_bias = nullptr;
    float logit_cap = 0;       // 0: none
    int64_t output_terms = 1;  // of the output layer's quantised rows

    bool has_source() const { return source_vocabulary > 0; }  // otherwise decoder-only: continues prompts
    LogitEpilogue logits(int64_t first = 0) const {
        return {output_bias ? output_bias + first : nullptr, logit_cap};
    }
    const AttentionLayers& attention(AttentionKind kind) const {
        return kind == AttentionKind::encoder   ? encoder_attention
               : kind == AttentionKind::decoder ? decoder_attention
                                                : cross_attention;
    }
};

// The decoder's input for a sentence: its source (none if decoder-only) and the token fed at each step of the
// target.
struct DecoderInput {
    const EncodedSentence* source;
    Tokens target;
};

// Where a sentence's attention matrices are written, each (layers, heads, query, key); null if the network
// has no such attention. `decoder` must be zeroed, because masked positions are not written.
struct AttentionMatrices {
    float *decoder = nullptr, *cross = nullptr;
};

// A head of a layer of cross-attention; negative: all heads.
struct CrossHead {
    int64_t layer = 0, head = -1;
};

class Network : public NetworkProperties, public std::enable_shared_from_this<Network> {
  public:
    Network() = default;
    virtual ~Network() = default;
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    // Encode sources, or read the prompts of a decoder-only network, all but the last token, which the first
    // step reads. `attention` is empty, or has an address per sentence, to which the encoder's matrices
    // (layers, heads, source, source) are written, if it has any.
    virtual Memory encode(const std::vector<Tokens>& sources,
                          const std::vector<float*>& attention = {}) const = 0;
    // The state before the first step, with `beams` rows for each sentence.
    virtual State start(const Memory& memory, int64_t beams) const = 0;
    // Feed a token to each row (rows,) and choose candidates. Throws TooLong.
    virtual State step(const State& state, const int32_t* tokens, const Request& request,
                       const Answer& answer) const = 0;
    // Feed several tokens to each sentence of a state with one beam (M42): rows [first[s], first[s + 1]) to
    // sentence s. The next state has a sentence for each row: it is the state after that row's token, bit for
    // bit that of steps. Only where can_verify().
    virtual State verify(const State& state, const std::vector<int64_t>& first, const int32_t* tokens,
                         const Request& request, const Answer& answer) const;
    virtual bool can_verify() const { return false; }
    // Write the attention of known targets, with the probabilities of encode() and step(), bit for bit: the
    // same products and the same kernels compute them. With `selected`, only one layer's cross-attention, (1,
    // query, key) of a head or (heads, query, key); later layers are not computed.
    virtual void record(const std::vector<DecoderInput>& inputs, const std::vector<AttentionMatrices>& to,
                        const std::optional<CrossHead>& selected = {}) const = 0;

    // The functions below are for Transformers only; a recurrent network refuses edits and has no arrays.

    // Throw EditMismatch unless the network has the heads or positions that the edits change. Layers and
    // heads count from 1 in the messages.
    virtual void check(const Edits& edits) const;
    // The same network with further edits; it shares the weights. Throws EditMismatch.
    virtual NetworkPtr edited(Edits edits, void (*check_interrupt)()) const;
    // A memory of another network that shares the weights and the encoder, for this one.
    virtual Memory adopt(const Memory& memory) const;
    // The arrays of a translation, without values, in the order of the computation: NAME,
    // `encoder.LAYER.NAME`, `decoder.LAYER.NAME` and `cross.LAYER.NAME`, with layers from 1; see
    // uwaga.engine.insight. `selection` are names or prefixes of names before a point; empty: all. Throws
    // NoSuchArray.
    virtual std::vector<NamedArray> insight_arrays(int64_t source, int64_t target,
                                                   const std::vector<std::string>& selection) const;
    // The selected arrays of one source, empty in a decoder-only network, and the tokens fed at each step of
    // the target. The weights are those of encode() and step(), bit for bit, with the edits; so are the
    // logits, of which step() returns the logarithms of the softmax. Scores are summed in another order than
    // in the kernels. Throws InsightTooLarge, before it computes anything, if they take more than `bound`
    // bytes.
    virtual std::vector<NamedArray> insight(const Tokens& source, const Tokens& target,
                                            const std::vector<std::string>& selection, int64_t bound) const;
    virtual int64_t cached_tokens() const { return 0; }  // of prompts, whose keys and values are kept

    std::vector<Buffer<float>> vectors;  // of the weights; an edited network shares those of its original
    mutable PagePool pages, chunks;
    mutable WorkspacePool workspaces;
    mutable Workers workers;
};

}  // namespace uwaga
