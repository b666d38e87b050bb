#include "c/translate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "recurrent/network.h"
#include "search/beam_search.h"
#include "text/utf8.h"
#include "transformer/record.h"

namespace uwaga {

namespace {

constexpr int64_t batch_tokens = 4096;  // source tokens times beams decoded together
constexpr std::size_t least_divisors = 512;

void check_text(std::string_view text, const char* what, std::size_t number) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = well_formed(text.substr(at));
        if (!length) throw Failure(Fault::text, std::string(what) + " " + std::to_string(number + 1) + ": byte " + std::to_string(at + 1) + " is not UTF-8");
        at += length;
    }
}

// The reservation of a call, returned at its end.
class Reservation {
  public:
    Reservation(Budget& budget, int64_t bytes, int64_t bound) : budget_(budget), bytes_(bytes) {
        const std::string needs = "the call may need " + std::to_string(bytes) + " bytes, more than the bound of memory leaves: translate fewer texts at once, or without attention";
        if ((bound && bytes > bound) || !budget.take(bytes)) throw Failure(Fault::memory, needs);
    }
    ~Reservation() { budget_.give(bytes_); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

  private:
    Budget& budget_;
    const int64_t bytes_;
};

class Translation {
  public:
    Translation(const OpenedModel& opened, const Wanted& wanted, const Hooks& hooks)
        : opened_(opened), pointer_(wanted.edits.empty() ? opened.model : edited(opened.model, wanted.edits, nullptr)), model_(*pointer_), wanted_(wanted), hooks_(hooks) {}

    std::vector<TranslatedText> run(const std::vector<std::string_view>& texts, Budget& budget, int64_t bound) {
        if (wanted_.targets && wanted_.targets->size() != texts.size()) throw Failure(Fault::argument, "targets: there are " + std::to_string(wanted_.targets->size()) + " for " + std::to_string(texts.size()) + " texts");
        if (wanted_.alignment && !model_.cross_layers()) throw Failure(Fault::argument, "alignment: the model has no attention to a source");
        std::vector<TranslatedText> made(texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            check_text(texts[i], "text", i);
            if (wanted_.targets) targets_.push_back(target_tokens(i));
            try {
                made[i].source = opened_.source->encode(texts[i], wanted_.tag);
            } catch (const WrongLanguage& error) {
                throw Failure(Fault::language, "text " + std::to_string(i + 1) + ": " + error.what());
            }
            if (made[i].source.empty()) {
                made[i].translations.emplace_back();
                continue;
            }
            made[i].source.push_back(opened_.symbols.end);
            if (length(made[i]) > model_.shape.max_length) {
                throw too_long("text", i, length(made[i]));
            }
        }
        if (wanted_.insight) insight_arrays(model_, 1, 1, *wanted_.insight);  // that all names are known
        const Reservation reserved(budget, needed(made), bound);
        const BeamRules rules = rules_for(made);
        for (std::size_t first = 0; first < made.size();) {
            std::vector<std::size_t> group;
            int64_t tokens = 0;
            for (; first < made.size(); ++first) {
                if (made[first].source.empty()) continue;
                tokens += length(made[first]) * rules.beams;
                if (!group.empty() && tokens > batch_tokens) break;
                group.push_back(first);
            }
            if (!group.empty()) translate_group(made, group, rules);
        }
        return made;
    }

  private:
    static int64_t length(const TranslatedText& text) { return static_cast<int64_t>(text.source.size()); }

    Failure too_long(const char* what, std::size_t number, int64_t tokens) const {
        return Failure(Fault::too_long, std::string(what) + " " + std::to_string(number + 1) + ": " + std::to_string(tokens) + " tokens, but the model accepts at most " + std::to_string(model_.shape.max_length));
    }

    // The tokens of a given target, from the one that the model forces first to the end symbol.
    std::vector<int64_t> target_tokens(std::size_t number) const {
        const Target& target = (*wanted_.targets)[number];
        check_text(target.text, "target", number);
        std::vector<int64_t> tokens;
        if (forced() >= 0) tokens.push_back(forced());
        for (const int32_t token : target.tokens ? *target.tokens : opened_.target->encode(target.text, "")) {
            if (token < 0 || token >= opened_.target->size()) throw Failure(Fault::argument, "targets: target " + std::to_string(number + 1) + " has the token " + std::to_string(token) + ", and the vocabulary has " + std::to_string(opened_.target->size()));
            tokens.push_back(token);
        }
        tokens.push_back(opened_.symbols.end);
        if (static_cast<int64_t>(tokens.size()) > model_.shape.max_length) throw too_long("target", number, static_cast<int64_t>(tokens.size()));
        return tokens;
    }

    // Maximum number of steps for text `number`, of `source` tokens: uwaga.search.constraints.step_limit.
    int64_t limit(std::size_t number, int64_t source) const {
        if (wanted_.targets) return static_cast<int64_t>(targets_[number].size());
        const Decoding& d = wanted_.decoding;
        constexpr int64_t unlimited = 2147483647;
        int64_t least = unlimited;
        if (d.max_length) least = std::min(least, d.max_length);
        if (model_.shape.max_length < unlimited) least = std::min(least, model_.shape.max_length);
        const int64_t prefix = forced() < 0 ? 0 : 1;
        if (least <= prefix) throw Failure(Fault::argument, "max_length: leaves no room after the first token, which the model forces");
        const double ratio = std::floor(d.max_ratio * static_cast<double>(source));
        if (ratio < 1e9) least = std::min(least, std::max(std::max(d.min_length, prefix) + 1, static_cast<int64_t>(ratio) + d.max_extra));
        if (least == unlimited) throw Failure(Fault::argument, "max_length: the model has no limit of length, so max_length or max_ratio must set one");
        return least;
    }
    int32_t forced() const { return wanted_.decoding.first; }
    int32_t start() const { return wanted_.decoding.start < 0 ? opened_.symbols.start : wanted_.decoding.start; }

    // An upper bound of the bytes that a call takes.
    int64_t needed(const std::vector<TranslatedText>& texts) const {
        const Shape& shape = model_.shape;
        const int64_t layers = model_.cross_layers(), beams = wanted_.decoding.beam;
        const Network* const net = model_.network.get();
        const int64_t key_value = net ? net->entry() * 4 : model_.key_value_width() * layers * model_.cache_element_size();
        const int64_t state = 8 * model_.cells_width() + (net ? 4 * net->first : 0);  // of a row
        int64_t group = 0, widest = 0, matrices = 0, insight = 0;
        for (std::size_t at = 0; at < texts.size(); ++at) {
            const int64_t source = length(texts[at]), steps = source ? limit(at, source) : 0, ranks = wanted_.decoding.nbest;
            const int64_t working = source * (key_value + 64 * shape.width) + beams * steps * (key_value + 64) + beams * (shape.width * 64 + state);
            group = std::max(group, working);
            widest = std::max(widest, beams * source);
            if (wanted_.attention) {
                matrices += static_cast<int64_t>(model_.encoder.size()) * shape.encoder.count * source * source;
                matrices += ranks * layers * shape.decoder.count * steps * (steps + source);
            }
            if (wanted_.alignment) matrices += ranks * (steps + 1) * source * (shape.decoder.count + 1);
            if (wanted_.insight && source) insight += insight_bytes(source, steps);
        }
        const int64_t together = widest ? std::min<int64_t>(static_cast<int64_t>(texts.size()), std::max<int64_t>(batch_tokens / widest, 1)) : 0;
        return group * std::max<int64_t>(together, 1) + 4 * matrices + insight;
    }
    int64_t insight_bytes(int64_t source, int64_t steps) const {
        int64_t bytes = 0;
        for (const NamedArray& array : insight_arrays(model_, source, steps, *wanted_.insight)) bytes += 4 * array.size();
        return std::min(bytes, most_insight_bytes);
    }

    std::set<int32_t> never_produced(int32_t start) const {
        const Decoding& d = wanted_.decoding;
        std::set<int32_t> never(d.banned.begin(), d.banned.end());
        never.insert({start, opened_.symbols.pad});
        if (!d.unknown) never.insert(opened_.symbols.unknown);
        never.erase(opened_.symbols.end);
        return never;
    }

    BeamRules rules_for(const std::vector<TranslatedText>& texts) const {
        const Decoding& d = wanted_.decoding;
        BeamRules rules;
        rules.beams = rules.enough = d.beam;
        rules.nbest = d.nbest;
        rules.start = start();
        rules.end = opened_.symbols.end;
        std::set<int32_t> never;
        if (!wanted_.targets) never = never_produced(rules.start);
        rules.never.assign(never.begin(), never.end());
        rules.min_length = wanted_.targets ? 0 : d.min_length;
        rules.stopping = static_cast<Stopping>(d.stopping);
        rules.force_end = d.force_end;
        rules.keep_tree = wanted_.tree;
        rules.score_forced = d.score_forced;
        rules.renormalise = d.renormalise;
        std::size_t longest = least_divisors;
        for (std::size_t at = 0; at < texts.size(); ++at) {
            if (!texts[at].source.empty()) longest = std::max(longest, static_cast<std::size_t>(limit(at, length(texts[at]))));
        }
        for (std::size_t n = 0; n < longest + 2; ++n) {
            const double counted = static_cast<double>(std::max<std::size_t>(n, 1));
            rules.divisors.push_back(d.length_formula == 0 ? std::pow(counted, d.length_penalty) : d.length_formula == 1 ? std::pow((5 + counted) / 6, d.length_penalty) : 1.0);
            if (!(rules.divisors.back() > 0) || std::isinf(rules.divisors.back())) throw Failure(Fault::argument, "length_penalty: too large for such long translations");
        }
        return rules;
    }

    void check_cancelled() const {
        if (hooks_.cancelled && hooks_.cancelled()) throw Failure(Fault::cancelled, "the call was cancelled");
    }

    void translate_group(std::vector<TranslatedText>& texts, const std::vector<std::size_t>& group, const BeamRules& rules) const {
        check_cancelled();
        std::vector<std::vector<int32_t>> sources;
        std::vector<float*> to;
        std::vector<Entry> entries;
        for (const std::size_t at : group) {
            TranslatedText& text = texts[at];
            sources.push_back(text.source);
            if (wanted_.attention) to.push_back(model_.network ? nullptr : add(text.arrays, "attention.encoder", {static_cast<int64_t>(model_.encoder.size()), model_.shape.encoder.count, length(text), length(text)}));
            Entry entry;
            entry.source = length(text);
            entry.limit = limit(at, entry.source);
            if (wanted_.targets) entry.forced = targets_[at];
            if (forced() >= 0) {
                if (!wanted_.targets) entry.forced = {forced()};
                entry.uncounted = rules.score_forced ? 0 : 1;
            }
            entry.streams = wanted_.streams;
            entries.push_back(std::move(entry));
        }
        Memory memory = wanted_.attention ? encode_recorded(pointer_, sources, to) : encode(pointer_, sources);
        if (opened_.shortlist) restrict_to(*opened_.shortlist, sources, memory);
        BeamSearch search(pointer_, rules);
        search.enter(memory, std::move(entries));
        std::vector<std::vector<int32_t>> so_far(group.size());
        while (!search.running().empty()) {
            check_cancelled();
            search.step();
            for (const Decided& one : search.take_decided()) {
                const std::size_t at = static_cast<std::size_t>(one.sentence);
                so_far[at].push_back(one.token);
                if (hooks_.on_token && !hooks_.on_token(group[at], one.token, static_cast<double>(one.log_prob), opened_.target->decode(so_far[at]))) throw Failure(Fault::cancelled, "the call was cancelled by its callback");
            }
        }
        for (Done& done : search.take_done()) {
            TranslatedText& text = texts[group[static_cast<std::size_t>(done.sentence)]];
            if (wanted_.tree) {
                float* to = add(text.arrays, "tree", {static_cast<int64_t>(done.tried.size()), 3});
                for (const Tried& one : done.tried) {
                    *to++ = static_cast<float>(one.parent);
                    *to++ = static_cast<float>(one.token);
                    *to++ = one.log_prob;
                }
            }
            for (FoundHypothesis& found : done.found) text.translations.push_back(translated(std::move(found)));
        }
        if (wanted_.alignment || wanted_.attention) record_all(texts, group, memory);
        if (wanted_.insight) look_inside_all(texts, group);
    }

    Translated translated(FoundHypothesis found) const {
        Translated made;
        made.tokens = std::move(found.tokens);
        if (!made.tokens.empty() && made.tokens.back() == opened_.symbols.end) made.tokens.pop_back();
        made.log_probs = std::move(found.log_probs);
        if (found.truncated) made.log_probs.resize(made.tokens.size());
        made.score = found.score;
        made.truncated = found.truncated;
        made.text = opened_.target->decode(made.tokens);
        return made;
    }

    // Add a zeroed array.
    static float* add(std::vector<NamedArray>& arrays, const char* name, std::vector<int64_t> shape) {
        arrays.push_back({name, std::move(shape)});
        return arrays.back().zeroed();
    }

    std::vector<int32_t> fed(const Translated& one, std::size_t most) const {
        std::vector<int32_t> tokens = {start()};
        tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
        most = std::min({most, tokens.size(), static_cast<std::size_t>(model_.shape.max_length)});
        tokens.resize(most);
        return tokens;
    }

    void record_all(std::vector<TranslatedText>& texts, const std::vector<std::size_t>& group, const Memory& memory) const {
        const int64_t layers = model_.cross_layers(), heads = model_.shape.decoder.count;
        for (std::size_t at = 0; at < group.size(); ++at) {
            const EncodedSentence* const source = &memory.sentences[at];
            for (Translated& one : texts[group[at]].translations) {
                check_cancelled();
                if (wanted_.attention) {
                    const Reading reading{source, fed(one, std::max<std::size_t>(one.log_probs.size(), 1))};
                    const int64_t steps = static_cast<int64_t>(reading.target.size());
                    Matrices to;
                    if (!model_.shape.recurrent) to.decoder = add(one.arrays, "attention.decoder", {layers, heads, steps, steps});
                    if (layers) to.cross = add(one.arrays, "attention.cross", {layers, heads, steps, source->length});
                    record(model_, {reading}, {to});
                }
                if (wanted_.alignment) align(one, source);
            }
        }
    }

    // The arrays inside the best translation of each text.
    void look_inside_all(std::vector<TranslatedText>& texts, const std::vector<std::size_t>& group) const {
        for (const std::size_t at : group) {
            check_cancelled();
            Translated& best = texts[at].translations[0];
            std::vector<NamedArray> arrays = look_inside(pointer_, texts[at].source, fed(best, std::max<std::size_t>(best.log_probs.size(), 1)), *wanted_.insight, most_insight_bytes);
            std::move(arrays.begin(), arrays.end(), std::back_inserter(best.arrays));
        }
    }

    // See uwaga.translator.align.token_alignments.
    void align(Translated& one, const EncodedSentence* source) const {
        const AlignmentHead& head = opened_.head;
        const std::size_t tokens = one.tokens.size();
        const Reading reading{source, fed(one, head.reading ? tokens + 1 : std::max<std::size_t>(tokens, 1))};
        const int64_t steps = static_cast<int64_t>(reading.target.size()), keys = source->length;
        const int64_t heads = head.head < 0 ? model_.shape.decoder.count : 1;
        std::vector<float> found(static_cast<std::size_t>(heads * steps * keys));
        record_cross(model_, {reading}, {found.data()}, {head.layer, head.head});
        float* const to = add(one.arrays, "alignment", {static_cast<int64_t>(tokens), keys});
        for (std::size_t t = 0; t < tokens; ++t) {
            const int64_t step = std::min<int64_t>(static_cast<int64_t>(t) + (head.reading ? 1 : 0), steps - 1);
            for (int64_t k = 0; k < keys; ++k) {
                float sum = 0;
                for (int64_t h = 0; h < heads; ++h) sum += found[static_cast<std::size_t>((h * steps + step) * keys + k)];
                to[static_cast<int64_t>(t) * keys + k] = head.head < 0 ? sum / static_cast<float>(heads) : sum;
            }
        }
    }

    const OpenedModel& opened_;
    const ModelPtr pointer_;  // the opened model, or it with the edits
    const Model& model_;
    const Wanted& wanted_;
    const Hooks& hooks_;
    std::vector<std::vector<int64_t>> targets_ = {};  // tokens that the decoder is forced along, if targets are given
};

}  // namespace

std::vector<TranslatedText> translate(const OpenedModel& opened, const std::vector<std::string_view>& texts, const Wanted& wanted, Budget& budget, int64_t bound, const Hooks& hooks) {
    try {
        return Translation(opened, wanted, hooks).run(texts, budget, bound);
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
