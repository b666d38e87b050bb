#include "c/translate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "recurrent/network.h"
#include "search/beam_search.h"
#include "text/utf8.h"
#include "transformer/record.h"

namespace uwaga {

namespace {

constexpr int64_t batch_tokens = 4096;  // source tokens times beams decoded together
constexpr std::size_t least_divisors = 512;

void check_text(std::string_view text, std::size_t number) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = well_formed(text.substr(at));
        if (!length) throw Failure(Fault::text, "text " + std::to_string(number + 1) + ": byte " + std::to_string(at + 1) + " is not UTF-8");
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
    Translation(const OpenedModel& opened, const Wanted& wanted, const Hooks& hooks) : opened_(opened), model_(*opened.model), wanted_(wanted), hooks_(hooks) {}

    std::vector<TranslatedText> run(const std::vector<std::string_view>& texts, Budget& budget, int64_t bound) {
        if (wanted_.alignment && !model_.cross_layers()) throw Failure(Fault::argument, "alignment: the model has no attention to a source");
        std::vector<TranslatedText> made(texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            check_text(texts[i], i);
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
                throw Failure(Fault::too_long, "text " + std::to_string(i + 1) + ": " + std::to_string(length(made[i])) + " tokens, but the model accepts at most " + std::to_string(model_.shape.max_length));
            }
        }
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

    // Maximum number of steps for a source: uwaga.search.constraints.step_limit.
    int64_t limit(int64_t source) const {
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
        int64_t group = 0, widest = 0, matrices = 0;
        for (const TranslatedText& text : texts) {
            const int64_t source = length(text), steps = source ? limit(source) : 0, ranks = wanted_.decoding.nbest;
            const int64_t working = source * (key_value + 64 * shape.width) + beams * steps * (key_value + 64) + beams * (shape.width * 64 + state);
            group = std::max(group, working);
            widest = std::max(widest, beams * source);
            if (wanted_.attention) {
                matrices += static_cast<int64_t>(model_.encoder.size()) * shape.encoder.count * source * source;
                matrices += ranks * layers * shape.decoder.count * steps * (steps + source);
            }
            if (wanted_.alignment) matrices += ranks * (steps + 1) * source * (shape.decoder.count + 1);
        }
        const int64_t together = widest ? std::min<int64_t>(static_cast<int64_t>(texts.size()), std::max<int64_t>(batch_tokens / widest, 1)) : 0;
        return group * std::max<int64_t>(together, 1) + 4 * matrices;
    }

    BeamRules rules_for(const std::vector<TranslatedText>& texts) const {
        const Decoding& d = wanted_.decoding;
        BeamRules rules;
        rules.beams = rules.enough = d.beam;
        rules.nbest = d.nbest;
        rules.start = start();
        rules.end = opened_.symbols.end;
        std::set<int32_t> never(d.banned.begin(), d.banned.end());
        never.insert({rules.start, opened_.symbols.pad});
        if (!d.unknown) never.insert(opened_.symbols.unknown);
        never.erase(rules.end);
        rules.never.assign(never.begin(), never.end());
        rules.min_length = d.min_length;
        rules.stopping = static_cast<Stopping>(d.stopping);
        rules.force_end = d.force_end;
        rules.score_forced = d.score_forced;
        rules.renormalise = d.renormalise;
        std::size_t longest = least_divisors;
        for (const TranslatedText& text : texts) {
            if (!text.source.empty()) longest = std::max(longest, static_cast<std::size_t>(limit(length(text))));
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
            if (wanted_.attention) to.push_back(model_.network ? nullptr : zeroed(text.encoder, {static_cast<int64_t>(model_.encoder.size()), model_.shape.encoder.count, length(text), length(text)}));
            Entry entry;
            entry.source = length(text);
            entry.limit = limit(entry.source);
            if (forced() >= 0) {
                entry.forced = {forced()};
                entry.uncounted = rules.score_forced ? 0 : 1;
            }
            entry.streams = wanted_.streams;
            entries.push_back(std::move(entry));
        }
        Memory memory = wanted_.attention ? encode_recorded(opened_.model, sources, to) : encode(opened_.model, sources);
        if (opened_.shortlist) restrict_to(*opened_.shortlist, sources, memory);
        BeamSearch search(opened_.model, rules);
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
            for (FoundHypothesis& found : done.found) text.translations.push_back(translated(std::move(found)));
        }
        if (wanted_.alignment || wanted_.attention) record_all(texts, group, memory);
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

    static float* zeroed(Table& table, std::vector<int64_t> shape) {
        int64_t size = 1;
        for (const int64_t axis : shape) size *= axis;
        table.shape = std::move(shape);
        table.values.assign(static_cast<std::size_t>(size), 0.0f);
        return table.values.data();
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
                    if (!model_.shape.recurrent) to.decoder = zeroed(one.decoder, {layers, heads, steps, steps});
                    if (layers) to.cross = zeroed(one.cross, {layers, heads, steps, source->length});
                    record(model_, {reading}, {to});
                }
                if (wanted_.alignment) align(one, source);
            }
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
        float* const to = zeroed(one.alignment, {static_cast<int64_t>(tokens), keys});
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
    const Model& model_;
    const Wanted& wanted_;
    const Hooks& hooks_;
};

}  // namespace

std::vector<TranslatedText> translate(const OpenedModel& opened, const std::vector<std::string_view>& texts, const Wanted& wanted, Budget& budget, int64_t bound, const Hooks& hooks) {
    try {
        return Translation(opened, wanted, hooks).run(texts, budget, bound);
    } catch (const NotNumbers& error) {
        throw Failure(Fault::model, error.what());
    } catch (const TooLong& error) {
        throw Failure(Fault::too_long, error.what());
    }
}

}  // namespace uwaga
