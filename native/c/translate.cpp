#include "c/translate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "search/beam_search.h"
#include "text/normaliser.h"
#include "text/utf8.h"

namespace uwaga {

namespace {

constexpr int64_t batch_tokens = 4096;  // source tokens times beams decoded together
constexpr std::size_t min_divisors = 512;

// The number of tokens before the first byte that completes no character: whole_characters of
// src/uwaga/tokenizers/subwords.py.
std::size_t whole_characters(const std::vector<int32_t>& tokens, const Subwords& target) {
    std::string bytes;  // of the byte pieces before the token
    for (std::size_t index = 0; index <= tokens.size(); ++index) {
        const int byte = index < tokens.size() ? byte_of(target.piece(tokens[index])) : -1;
        if (byte >= 0) {
            bytes.push_back(static_cast<char>(byte));
            continue;
        }
        for (std::string_view remaining = bytes; !remaining.empty();) {
            const std::size_t length = well_formed(remaining);
            if (!length) return index - remaining.size();
            remaining.remove_prefix(length);
        }
        bytes.clear();
    }
    return tokens.size();
}

// A decoded text without the marks of bytes that are no character.
std::string without_broken_bytes(std::string text) {
    for (std::size_t position = 0; (position = text.find(replacement_mark, position)) != std::string::npos;)
        text.erase(position, replacement_mark.size());
    return text;
}

void check_text(std::string_view text, const char* kind, std::size_t number) {
    for (std::size_t position = 0; position < text.size();) {
        const std::size_t length = well_formed(text.substr(position));
        if (!length)
            throw Failure(Fault::text, std::string(kind) + " " + std::to_string(number + 1) + ": byte " +
                                           std::to_string(position + 1) + " is not UTF-8");
        position += length;
    }
}

// The reservation of a call, returned at its end.
class Reservation {
  public:
    Reservation(Budget& budget, int64_t bytes, int64_t bound) : budget_(budget), bytes_(bytes) {
        const std::string needs =
            "the call may need " + std::to_string(bytes) +
            " bytes, more than the bound of memory leaves: translate fewer texts at once, or without attention";
        if ((bound && bytes > bound) || !budget.take(bytes)) throw Failure(Fault::memory, needs);
    }
    ~Reservation() { budget_.release(bytes_); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

  private:
    Budget& budget_;
    const int64_t bytes_;
};

// What a text that streams has decided: its tokens, of which the first have been reported.
struct Stream {
    std::size_t reported = 0;
    std::vector<int32_t> tokens = {};
    std::vector<double> log_probs = {};
};

class Translation {
  public:
    Translation(const OpenedModel& opened, const TranslateRequest& request, const Hooks& hooks)
        : opened_(opened),
          pointer_(request.edits.empty() ? opened.model : opened.model->edited(request.edits, nullptr)),
          model_(*pointer_), request_(request), hooks_(hooks) {}

    std::vector<TextResult> run(const std::vector<std::string_view>& texts, Budget& budget, int64_t bound) {
        if (request_.targets && request_.targets->size() != texts.size())
            throw Failure(Fault::argument, "targets: there are " + std::to_string(request_.targets->size()) +
                                               " for " + std::to_string(texts.size()) + " texts");
        if (request_.alignment && !model_.cross_attention.layers)
            throw Failure(Fault::argument, "alignment: the model has no attention to a source");
        std::vector<TextResult> results(texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            check_text(texts[i], "text", i);
            if (request_.targets) targets_.push_back(target_tokens(i));
            try {
                results[i].source = opened_.source->encode(texts[i], request_.tag);
            } catch (const WrongLanguage& error) {
                throw Failure(Fault::language, "text " + std::to_string(i + 1) + ": " + error.what());
            }
            if (results[i].source.empty()) {
                results[i].translations.emplace_back();
                continue;
            }
            results[i].source = opened_.source->framed(std::move(results[i].source), request_.language);
            if (length(results[i]) > model_.max_length) {
                throw too_long("text", i, length(results[i]));
            }
        }
        if (request_.insight) model_.insight_arrays(1, 1, *request_.insight);  // that all names are known
        const Reservation reserved(budget, required_bytes(results), bound);
        const BeamRules rules = rules_for(results);
        for (std::size_t first = 0; first < results.size();) {
            std::vector<std::size_t> group;
            int64_t tokens = 0;
            for (; first < results.size(); ++first) {
                if (results[first].source.empty()) continue;
                tokens += length(results[first]) * rules.beams;
                if (!group.empty() && tokens > batch_tokens) break;
                group.push_back(first);
            }
            if (!group.empty()) translate_group(results, group, rules);
        }
        return results;
    }

  private:
    static int64_t length(const TextResult& text) { return static_cast<int64_t>(text.source.size()); }

    Failure too_long(const char* kind, std::size_t number, int64_t tokens) const {
        return Failure(Fault::too_long,
                       std::string(kind) + " " + std::to_string(number + 1) + ": " + std::to_string(tokens) +
                           " tokens, but the model accepts at most " + std::to_string(model_.max_length) +
                           "; a text is translated as one sentence: split it into its sentences before");
    }

    // The tokens of a given target, from the one that the model forces first to the end symbol.
    std::vector<int64_t> target_tokens(std::size_t number) const {
        const Target& target = (*request_.targets)[number];
        check_text(target.text, "target", number);
        std::vector<int64_t> tokens;
        if (forced() >= 0) tokens.push_back(forced());
        for (const int32_t token : target.tokens ? *target.tokens : opened_.target->encode(target.text, "")) {
            if (token < 0 || token >= opened_.target->size())
                throw Failure(Fault::argument, "targets: target " + std::to_string(number + 1) +
                                                   " has the token " + std::to_string(token) +
                                                   ", and the vocabulary has " +
                                                   std::to_string(opened_.target->size()));
            tokens.push_back(token);
        }
        tokens.push_back(opened_.symbols.end);
        if (static_cast<int64_t>(tokens.size()) > model_.max_length)
            throw too_long("target", number, static_cast<int64_t>(tokens.size()));
        return tokens;
    }

    // Maximum number of steps for text `number`, of `source` tokens: uwaga.search.constraints.step_limit.
    int64_t limit(std::size_t number, int64_t source) const {
        if (request_.targets) return static_cast<int64_t>(targets_[number].size());
        const Decoding& d = request_.decoding;
        constexpr int64_t unlimited = 2147483647;
        int64_t limit = unlimited;
        if (d.max_length) limit = std::min(limit, d.max_length);
        if (model_.max_length < unlimited) limit = std::min(limit, model_.max_length);
        const int64_t prefix = forced() < 0 ? 0 : 1;
        if (limit <= prefix)
            throw Failure(Fault::argument,
                          "max_length: leaves no room after the first token, which the model forces");
        const double ratio = std::floor(d.max_ratio * static_cast<double>(source));
        if (ratio < 1e9)
            limit = std::min(limit, std::max(std::max(d.min_length, prefix) + 1,
                                             static_cast<int64_t>(ratio) + d.max_extra));
        if (limit == unlimited)
            throw Failure(
                Fault::argument,
                "max_length: the model has no limit of length, so max_length or max_ratio must set one");
        return limit;
    }
    int32_t forced() const { return request_.decoding.first; }
    int32_t start() const {
        return request_.decoding.start < 0 ? opened_.symbols.start : request_.decoding.start;
    }

    // An upper bound of the bytes that a call takes.
    int64_t required_bytes(const std::vector<TextResult>& texts) const {
        const AttentionLayers encoder = model_.encoder_attention, decoder = model_.decoder_attention,
                              cross = model_.cross_attention;
        const int64_t beams = request_.decoding.beam;
        int64_t group = 0, widest = 0, matrices = 0, insight = 0;
        for (std::size_t number = 0; number < texts.size(); ++number) {
            const int64_t source = length(texts[number]), steps = source ? limit(number, source) : 0,
                          ranks = request_.decoding.nbest;
            const int64_t working = source * (model_.token_bytes + 64 * model_.width) +
                                    beams * steps * (model_.token_bytes + 64) +
                                    beams * (model_.width * 64 + model_.row_bytes);
            group = std::max(group, working);
            widest = std::max(widest, beams * source);
            if (request_.attention) {
                matrices += encoder.layers * encoder.heads * source * source;
                matrices += ranks * steps *
                            (decoder.layers * decoder.heads * steps + cross.layers * cross.heads * source);
            }
            if (request_.alignment) matrices += ranks * (steps + 1) * source * (cross.heads + 1);
            if (request_.insight && source) insight += insight_bytes(source, steps);
        }
        const int64_t concurrent = widest ? std::min<int64_t>(static_cast<int64_t>(texts.size()),
                                                              std::max<int64_t>(batch_tokens / widest, 1))
                                          : 0;
        return group * std::max<int64_t>(concurrent, 1) + 4 * matrices + insight;
    }
    int64_t insight_bytes(int64_t source, int64_t steps) const {
        int64_t bytes = 0;
        for (const NamedArray& array : model_.insight_arrays(source, steps, *request_.insight))
            bytes += 4 * array.size();
        return std::min(bytes, max_insight_bytes);
    }

    std::set<int32_t> never_produced(int32_t start) const {
        const Decoding& d = request_.decoding;
        std::set<int32_t> banned(d.banned.begin(), d.banned.end());
        banned.insert({start, opened_.symbols.pad});
        if (!d.unknown) banned.insert(opened_.symbols.unknown);
        banned.erase(opened_.symbols.end);
        return banned;
    }

    BeamRules rules_for(const std::vector<TextResult>& texts) const {
        const Decoding& d = request_.decoding;
        BeamRules rules;
        rules.beams = rules.pool_size = d.beam;
        rules.nbest = d.nbest;
        rules.start = start();
        rules.end = opened_.symbols.end;
        std::set<int32_t> banned;
        if (!request_.targets) banned = never_produced(rules.start);
        rules.banned.assign(banned.begin(), banned.end());
        rules.min_length = request_.targets ? 0 : d.min_length;
        rules.early_stopping = static_cast<Stopping>(d.stopping);
        rules.force_end = d.force_end;
        rules.keep_tree = request_.tree;
        rules.score_forced = d.score_forced;
        rules.renormalise = d.renormalise;
        std::size_t longest = min_divisors;
        for (std::size_t number = 0; number < texts.size(); ++number) {
            if (!texts[number].source.empty())
                longest = std::max(longest, static_cast<std::size_t>(limit(number, length(texts[number]))));
        }
        for (std::size_t n = 0; n < longest + 2; ++n) {
            const double counted = static_cast<double>(std::max<std::size_t>(n, 1));
            rules.divisors.push_back(d.length_formula == 0   ? std::pow(counted, d.length_penalty)
                                     : d.length_formula == 1 ? std::pow((5 + counted) / 6, d.length_penalty)
                                                             : 1.0);
            if (!(rules.divisors.back() > 0) || std::isinf(rules.divisors.back()))
                throw Failure(Fault::argument, "length_penalty: too large for such long translations");
        }
        return rules;
    }

    void check_cancelled() const {
        if (hooks_.cancelled && hooks_.cancelled()) throw Failure(Fault::cancelled, "the call was cancelled");
    }

    // Search for texts of these numbers, and report the tokens of streams: those that complete a character,
    // once.
    std::vector<FinishedSentence> search(const Memory& memory, std::vector<Entry> entries,
                                         const BeamRules& rules, const std::vector<std::size_t>& numbers,
                                         std::vector<Stream>& streams) const {
        BeamSearch search(pointer_, rules);
        search.enter(memory, std::move(entries));
        while (!search.running().empty()) {
            check_cancelled();
            search.step();
            for (const DecidedToken& token : search.take_decided()) {
                const std::size_t number = numbers[static_cast<std::size_t>(token.sentence)];
                streams[number].tokens.push_back(token.token);
                streams[number].log_probs.push_back(static_cast<double>(token.log_prob));
                report(number, streams[number]);
            }
        }
        return search.take_finished();
    }

    void report(std::size_t number, Stream& stream) const {
        if (!hooks_.on_token || whole_characters(stream.tokens, *opened_.target) < stream.tokens.size())
            return;
        for (; stream.reported < stream.tokens.size(); ++stream.reported) {
            const auto end = stream.tokens.begin() + static_cast<std::ptrdiff_t>(stream.reported) + 1;
            const std::string text = opened_.target->decode({stream.tokens.begin(), end});
            if (!hooks_.on_token(number, stream.tokens[stream.reported], stream.log_probs[stream.reported],
                                 without_broken_bytes(text)))
                throw Failure(Fault::cancelled, "the call was cancelled by its callback");
        }
    }

    std::vector<int64_t> forced_tokens(std::size_t number) const {
        if (request_.targets) return targets_[number];
        return forced() < 0 ? std::vector<int64_t>() : std::vector<int64_t>{forced()};
    }

    Entry entry_for(std::size_t number, int64_t source, std::vector<int64_t> forced_tokens) const {
        Entry entry;
        entry.source = source;
        entry.limit = limit(number, source);
        entry.forced = std::move(forced_tokens);
        entry.streams = request_.streams;
        return entry;
    }

    // Replace best hypotheses with a byte that completes no character by a second search, which continues the
    // tokens before that byte without bytes: replace_broken of src/uwaga/translator/layers/search.py.
    void replace_broken(std::vector<FinishedSentence>& sentences, const Memory& memory, BeamRules rules,
                        const std::vector<std::size_t>& group, std::vector<Stream>& streams) const {
        Memory broken_memory{memory.network, {}};
        std::vector<Entry> entries;
        std::vector<std::size_t> numbers;
        std::vector<FinishedSentence*> broken;
        for (FinishedSentence& sentence : sentences) {
            const std::vector<int32_t>& tokens = sentence.hypotheses[0].tokens;
            const std::size_t whole = whole_characters(tokens, *opened_.target);
            if (whole == tokens.size()) continue;
            const auto index = static_cast<std::size_t>(sentence.sentence);
            broken.push_back(&sentence);
            numbers.push_back(group[index]);
            streams[group[index]].tokens.clear();
            streams[group[index]].log_probs.clear();
            broken_memory.sentences.push_back(memory.sentences[index]);
            entries.push_back(entry_for(group[index], memory.sentences[index].length,
                                        {tokens.begin(),
                                         tokens.begin() + static_cast<std::ptrdiff_t>(whole)}));
        }
        if (broken.empty()) return;
        std::set<int32_t> banned = never_produced(rules.start);
        for (int32_t token = 0; token < opened_.target->size(); ++token)
            if (byte_of(opened_.target->piece(token)) >= 0x80) banned.insert(token);
        rules.banned.assign(banned.begin(), banned.end());
        rules.nbest = 1;
        rules.keep_tree = false;
        for (FinishedSentence& sentence :
             search(broken_memory, std::move(entries), rules, numbers, streams)) {
            auto& hypotheses = broken[static_cast<std::size_t>(sentence.sentence)]->hypotheses;
            hypotheses[0] = std::move(sentence.hypotheses[0]);
            for (std::size_t rank = 1; rank < hypotheses.size(); ++rank) {
                if (hypotheses[rank].score > hypotheses[rank - 1].score)
                    std::swap(hypotheses[rank], hypotheses[rank - 1]);
            }
        }
    }

    void translate_group(std::vector<TextResult>& texts, const std::vector<std::size_t>& group,
                         const BeamRules& rules) const {
        check_cancelled();
        std::vector<std::vector<int32_t>> sources;
        const AttentionLayers encoder = model_.encoder_attention;
        std::vector<float*> to;
        std::vector<Entry> entries;
        std::vector<Stream> streams(texts.size());
        for (const std::size_t index : group) {
            TextResult& text = texts[index];
            sources.push_back(text.source);
            if (request_.attention)
                to.push_back(!encoder.layers
                                 ? nullptr
                                 : add(text.arrays, "attention.encoder",
                                       {encoder.layers, encoder.heads, length(text), length(text)}));
            entries.push_back(entry_for(index, length(text), forced_tokens(index)));
        }
        Memory memory = model_.encode(sources, to);
        if (opened_.shortlist) restrict_to(*opened_.shortlist, sources, memory);
        std::vector<FinishedSentence> sentences = search(memory, std::move(entries), rules, group, streams);
        if (!request_.targets) replace_broken(sentences, memory, rules, group, streams);
        for (FinishedSentence& finished : sentences) {
            TextResult& text = texts[group[static_cast<std::size_t>(finished.sentence)]];
            if (request_.tree) {
                float* to = add(text.arrays, "tree", {static_cast<int64_t>(finished.tree.size()), 3});
                for (const TreeNode& node : finished.tree) {
                    *to++ = static_cast<float>(node.parent);
                    *to++ = static_cast<float>(node.token);
                    *to++ = node.log_prob;
                }
            }
            for (Hypothesis& hypothesis : finished.hypotheses) {
                if (request_.targets ||
                    whole_characters(hypothesis.tokens, *opened_.target) == hypothesis.tokens.size())
                    text.translations.push_back(translation_of(std::move(hypothesis)));
            }
        }
        if (request_.alignment || request_.attention) record_all(texts, group, memory);
        if (request_.insight) compute_insights(texts, group);
    }

    TextTranslation translation_of(Hypothesis hypothesis) const {
        TextTranslation translation;
        translation.tokens = std::move(hypothesis.tokens);
        if (!translation.tokens.empty() && translation.tokens.back() == opened_.symbols.end)
            translation.tokens.pop_back();
        translation.log_probs = std::move(hypothesis.log_probs);
        if (hypothesis.truncated) translation.log_probs.resize(translation.tokens.size());
        translation.score = hypothesis.score;
        translation.truncated = hypothesis.truncated;
        translation.text = without_broken_bytes(opened_.target->decode(translation.tokens));
        return translation;
    }

    // Add a zeroed array.
    static float* add(std::vector<NamedArray>& arrays, const char* name, std::vector<int64_t> shape) {
        arrays.push_back({name, std::move(shape)});
        return arrays.back().zeroed();
    }

    std::vector<int32_t> decoder_input(const TextTranslation& translation, std::size_t max_tokens) const {
        std::vector<int32_t> tokens = {start()};
        tokens.insert(tokens.end(), translation.tokens.begin(), translation.tokens.end());
        max_tokens = std::min({max_tokens, tokens.size(), static_cast<std::size_t>(model_.max_length)});
        tokens.resize(max_tokens);
        return tokens;
    }

    void record_all(std::vector<TextResult>& texts, const std::vector<std::size_t>& group,
                    const Memory& memory) const {
        const AttentionLayers decoder = model_.decoder_attention, cross = model_.cross_attention;
        for (std::size_t index = 0; index < group.size(); ++index) {
            const EncodedSentence* const source = &memory.sentences[index];
            for (TextTranslation& translation : texts[group[index]].translations) {
                check_cancelled();
                if (request_.attention) {
                    const DecoderInput input{
                        source,
                        decoder_input(translation, std::max<std::size_t>(translation.log_probs.size(), 1))};
                    const int64_t steps = static_cast<int64_t>(input.target.size());
                    AttentionMatrices to;
                    if (decoder.layers)
                        to.decoder = add(translation.arrays, "attention.decoder",
                                         {decoder.layers, decoder.heads, steps, steps});
                    if (cross.layers)
                        to.cross = add(translation.arrays, "attention.cross",
                                       {cross.layers, cross.heads, steps, source->length});
                    model_.record({input}, {to});
                }
                if (request_.alignment) align(translation, source);
            }
        }
    }

    // The arrays inside the best translation of each text.
    void compute_insights(std::vector<TextResult>& texts, const std::vector<std::size_t>& group) const {
        for (const std::size_t number : group) {
            check_cancelled();
            TextTranslation& best = texts[number].translations[0];
            std::vector<NamedArray> arrays = model_.insight(
                texts[number].source, decoder_input(best, std::max<std::size_t>(best.log_probs.size(), 1)),
                *request_.insight, max_insight_bytes);
            std::move(arrays.begin(), arrays.end(), std::back_inserter(best.arrays));
        }
    }

    // See uwaga.translator.align.token_alignments.
    void align(TextTranslation& translation, const EncodedSentence* source) const {
        const AlignmentHead& head = opened_.head;
        const std::size_t tokens = translation.tokens.size();
        const DecoderInput input{
            source,
            decoder_input(translation, head.reads_token ? tokens + 1 : std::max<std::size_t>(tokens, 1))};
        const int64_t steps = static_cast<int64_t>(input.target.size()), keys = source->length;
        const int64_t heads = head.head < 0 ? model_.cross_attention.heads : 1;
        std::vector<float> weights(static_cast<std::size_t>(heads * steps * keys));
        model_.record({input}, {{nullptr, weights.data()}}, CrossHead{head.layer, head.head});
        float* const to = add(translation.arrays, "alignment", {static_cast<int64_t>(tokens), keys});
        for (std::size_t t = 0; t < tokens; ++t) {
            const int64_t step = std::min<int64_t>(static_cast<int64_t>(t) + (head.reads_token ? 1 : 0),
                                                   steps - 1);
            for (int64_t k = 0; k < keys; ++k) {
                float sum = 0;
                for (int64_t h = 0; h < heads; ++h)
                    sum += weights[static_cast<std::size_t>((h * steps + step) * keys + k)];
                to[static_cast<int64_t>(t) * keys + k] = head.head < 0 ? sum / static_cast<float>(heads)
                                                                       : sum;
            }
        }
    }

    const OpenedModel& opened_;
    const NetworkPtr pointer_;  // the opened model, or it with the edits
    const Network& model_;
    const TranslateRequest& request_;
    const Hooks& hooks_;
    std::vector<std::vector<int64_t>> targets_ = {};  // tokens that the decoder is forced along, if targets
                                                      // are given
};

}  // namespace

std::vector<TextResult> translate(const OpenedModel& opened, const std::vector<std::string_view>& texts,
                                  const TranslateRequest& request, Budget& budget, int64_t bound,
                                  const Hooks& hooks) {
    try {
        return Translation(opened, request, hooks).run(texts, budget, bound);
    } catch (const NotNumbers& error) {
        throw Failure(Fault::model, error.what());
    } catch (const TooLong& error) {
        throw Failure(Fault::too_long, error.what());
    } catch (const EditMismatch& error) {
        throw Failure(Fault::argument, std::string("edits: ") + error.what());
    } catch (const NoSuchArray& error) {
        throw Failure(Fault::argument, std::string("insight: ") + error.what());
    } catch (const InsightTooLarge& error) {
        throw Failure(Fault::memory, std::string("insight: ") + error.what());
    }
}

}  // namespace uwaga
