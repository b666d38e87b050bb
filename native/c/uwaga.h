/* uwaga: translation with attention models in C.
 *
 *     uwaga_model* model;
 *     uwaga_result* result;
 *     uwaga_error error;
 *     const char* text = "A dog runs.";
 *     if (uwaga_open_folder("model", NULL, &model, &error) != UWAGA_OK) ...;   (error.message)
 *     if (uwaga_translate(model, &text, NULL, 1, "{\"beam\": 5}", NULL, &result, &error) != UWAGA_OK) ...;
 *     puts(uwaga_result_text(result, 0, 0, NULL));
 *     uwaga_result_free(result);
 *     uwaga_close(model);
 *
 * Threads may share a model. A result and a call belong to one thread at a time; only uwaga_cancel may be
 * called from another one. Nothing is global. Texts are UTF-8. A text is translated as one sentence: sentence
 * splitting, lower-casing of capitals, markup and glossaries are those of the Python package. Tokens and
 * numbers equal Python's, bit for bit.
 *
 * Options are JSON objects, so that later versions can add some; NULL or "" is {}. Unknown ones are errors.
 */
#ifndef UWAGA_H
#define UWAGA_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(UWAGA_SHARED)
#define UWAGA_API __declspec(dllexport)
#elif defined(__GNUC__)
#define UWAGA_API __attribute__((visibility("default")))
#else
#define UWAGA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uwaga_model uwaga_model;
typedef struct uwaga_result uwaga_result;
typedef struct uwaga_call uwaga_call;

enum {
    UWAGA_OK = 0,
    UWAGA_ERROR_ARGUMENT = 1, /* a null pointer, or an option that is unknown or out of range */
    UWAGA_ERROR_FILE = 2,     /* a file is missing or cannot be read */
    UWAGA_ERROR_MODEL = 3,    /* a file is damaged, or the model is of a kind that the library cannot run */
    UWAGA_ERROR_TEXT = 4,     /* a text is not UTF-8 */
    UWAGA_ERROR_TOO_LONG = 5, /* a text has more tokens than the model accepts */
    UWAGA_ERROR_LANGUAGE = 6, /* the model translates between other languages */
    UWAGA_ERROR_MEMORY = 7,   /* the bound of memory or the memory of the system is too small */
    UWAGA_ERROR_CANCELLED = 8,
    UWAGA_ERROR_INTERNAL = 9
};

/* The code and message of the latest failure. The caller owns it, so no message is global; it may be NULL. */
typedef struct {
    int code;
    char message[508]; /* UTF-8, ends with a zero */
} uwaga_error;

/* Called for each token as it is decided, in streams: the number of the text, the token, its log-probability,
 * and the translation so far, which later tokens may change at its end. The bytes of a character follow each
 * other when it is complete. Anything but 0 cancels the call. It must not call uwaga_call_free. */
typedef int (*uwaga_on_token)(void* user, size_t text, int32_t token, double log_prob,
                              const char* translation);

UWAGA_API const char* uwaga_version(void);

/* Open a folder of a Transformer or a recurrent model: one of `uwaga train`, of `uwaga convert --int8` or
 * `--int4`, or a binary one of Marian, such as Firefox's. Options:
 *   "threads": of one call, 1 to 256; default 1
 *   "dtype": "int8" or "float32" for the matrices; default: as they are stored
 *   "shortlist": false to leave out the shortlist that comes with a model of Marian
 *   "isa": the instruction set, such as "portable"; default: the fastest of this processor
 *   "memory": bound in bytes of the model and of all calls together; default: none
 *   "source_language": refuse a model of another language
 *   "target_language": of a multilingual model; of any other, refuse a model of another language */
UWAGA_API int uwaga_open_folder(const char* folder, const char* options, uwaga_model** model,
                                uwaga_error* error);

/* The same from files in memory, which are copied: names as in the folder, contents, and sizes in bytes. */
UWAGA_API int uwaga_open_files(const char* const* names, const void* const* contents, const size_t* sizes,
                               size_t count, const char* options, uwaga_model** model, uwaga_error* error);

/* Close a model, which no call may be using. Results stay valid. NULL is allowed. */
UWAGA_API void uwaga_close(uwaga_model* model);

/* A JSON object that describes the model: languages, sizes, default options, bytes. It lives as long as the
 * model. "ignored_options" names search options that the model sets and that are not applied: newer than this
 * version, or Python's alone. */
UWAGA_API const char* uwaga_model_info(const uwaga_model* model);

/* The piece of a token of the source's vocabulary (side 0) or the target's (1), with U+2581 for spaces; NULL
 * beyond it. It lives as long as the model. */
UWAGA_API const char* uwaga_model_piece(const uwaga_model* model, int side, int32_t token);

/* Make an object that cancels a call or streams its tokens; `on_token` may be NULL. NULL: out of memory. */
UWAGA_API uwaga_call* uwaga_call_new(uwaga_on_token on_token, void* user);

/* Cancel the call that has this object, or the next one; from any thread. The call returns before its next
 * step. */
UWAGA_API void uwaga_cancel(uwaga_call* call);
UWAGA_API void uwaga_call_free(uwaga_call* call);

/* Translate texts. `lengths` are their bytes; NULL if each ends with a zero. Options, whose defaults are the
 * model's:
 *   "beam", "nbest", "length_penalty", "length_formula" ("average", "gnmt", "none"), "early_stopping"
 *     (true, false, "estimate"), "min_length", "max_length", "max_ratio", "max_extra": as in Python
 *   "alignment": true for the share of each source token in each target token, by the model's alignment head
 *   "attention": true for all attention matrices
 *   "insight": names of arrays inside the best translation (queries, weights, logits, ...), or their
 *     prefixes such as "cross.2"; [] for all. Python's uwaga.engine.insight describes them. At most 256 MiB
 *     for each text
 *   "targets": a translation for each text, or its tokens, which the decoder is forced along: its scores,
 *     attention, insight
 *   "tree": true for the candidates of all steps of the search
 *   "edits": changes of attention heads and positions, in their order: objects with "kind" ("encoder",
 *     "decoder", "cross"), "layer" and "head" from 1 (default: all), "weights" ("silent", "alone",
 *     "uniform", "diagonal", or numbers, as an array (queries, keys) or (heads, queries, keys)), "mask" (rows
 *     of truth values), "scale"; or with "side" ("source", "target") and "places", the positions of its first
 *     tokens
 *   "source_language", "target_language": as above
 *   "memory": bound in bytes of this call
 * A call with on_token streams: its beam must be 1, the default then. Without one, `call` may be NULL. */
UWAGA_API int uwaga_translate(const uwaga_model* model, const char* const* texts, const size_t* lengths,
                              size_t count, const char* options, uwaga_call* call, uwaga_result** result,
                              uwaga_error* error);

/* Below, `text` counts texts and `rank` their translations, the best first. Numbers out of range give NULL, 0
 * or NaN. What is returned lives as long as the result. */

/* Number of translations of a text; 0 for a text without any. */
UWAGA_API size_t uwaga_result_count(const uwaga_result* result, size_t text);

/* A translation, which ends with a zero; its bytes in `length` unless NULL. */
UWAGA_API const char* uwaga_result_text(const uwaga_result* result, size_t text, size_t rank, size_t* length);

/* The score that ranks a translation; whether a limit of length cut it. */
UWAGA_API double uwaga_result_score(const uwaga_result* result, size_t text, size_t rank);
UWAGA_API int uwaga_result_truncated(const uwaga_result* result, size_t text, size_t rank);

/* The tokens: of the source with its end symbol if `side` is 0, else of the target without. Returns their
 * number. */
UWAGA_API size_t uwaga_result_tokens(const uwaga_result* result, size_t text, size_t rank, int side,
                                     const int32_t** tokens);

/* Log-probabilities of the target's tokens and, unless it was truncated, of the end symbol. Returns their
 * number. */
UWAGA_API size_t uwaga_result_log_probs(const uwaga_result* result, size_t text, size_t rank,
                                        const double** log_probs);

/* The name of an array that was requested, counted from 0; NULL after the last. There are
 *   alignment                  (target tokens, source tokens)
 *   attention.encoder          (layers, heads, queries, keys); also attention.decoder and attention.cross.
 *                              Queries of the decoder are its steps, the first of which reads the start
 *                              symbol
 *   tree                       (candidates, 3): the number of the candidate before or -1, the token, its
 *                              log-probability; each step keeps twice as many candidates as there are
 *                              beams, the best first
 * and the names of "insight". What the model lacks is missing. */
UWAGA_API const char* uwaga_result_array_name(const uwaga_result* result, size_t text, size_t rank,
                                              size_t at);

/* The array with a name, row by row, with the sizes of its axes and their number (1 to 4), unless NULL; NULL
 * if there is none. */
UWAGA_API const float* uwaga_result_array(const uwaga_result* result, size_t text, size_t rank,
                                          const char* name, size_t shape[4], size_t* axes);

UWAGA_API void uwaga_result_free(uwaga_result* result);

#ifdef __cplusplus
}
#endif

#endif
