#include "output/shortlist.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "transformer/state.h"

namespace uwaga {

namespace {

constexpr int64_t unit = 4;             // bytes of a column that lie together, in each number format
constexpr int64_t columns_at_once = 8;  // copied side by side: as many reads of far memory are under way
constexpr double regather_factor = 1.5;  // times as many columns as are used: then the output layer is made anew
constexpr int64_t least_panels = 8;     // that are worth a thread's beginning
constexpr std::size_t most_kept = 1;    // spare pieces of memory

// Bytes from one unit of a column to its next are panel * unit, in all three number formats.
int64_t units_of(const Matrix& w) {
    switch (w.kind) {
        case Matrix::Kind::int8: return padded_inputs(w.int8.inputs) / unit;
        case Matrix::Kind::bfloat16: return (w.bfloat16.inputs + 1) / 2;
        default: return w.float32.inputs;
    }
}

const uint8_t* panels_of(const Matrix& w) {
    switch (w.kind) {
        case Matrix::Kind::int8: return reinterpret_cast<const uint8_t*>(w.int8.panels);
        case Matrix::Kind::bfloat16: return reinterpret_cast<const uint8_t*>(w.bfloat16.panels);
        default: return reinterpret_cast<const uint8_t*>(w.float32.panels);
    }
}

int64_t offset_of(int64_t column, int64_t units) { return column / panel * panel * units * unit + column % panel * unit; }

// Room for all columns of `made`, with the first `held` of `from` in it, which may be itself, and zeros behind them
// where the last panel is not full.
void make_room(const Model& model, const Gathered& from, int64_t held, Gathered& made) {
    const Matrix& whole = model.output_weight;
    const int64_t columns = static_cast<int64_t>(made.tokens.size()), width = rounded(columns, panel), kept = rounded(held, panel);
    const int64_t row = units_of(whole) * unit, last = std::max(kept, width - panel);
    if (made.panels.size() < width * row) {
        Buffer<uint8_t> panels = made.reused->panels.take(width * row);
        if (kept) std::memcpy(panels.get(), from.panels.get(), static_cast<std::size_t>(kept * row));
        std::swap(made.panels, panels);
        if (panels.size()) made.reused->panels.give(std::move(panels));
    }
    std::memset(made.panels.get() + last * row, 0, static_cast<std::size_t>((width - last) * row));
    const auto grow = [&](auto& buffer, const auto& other) {
        if (buffer.size() < width) {
            std::remove_reference_t<decltype(buffer)> more(width + width / 2);
            if (kept) std::copy_n(other.get(), kept, more.get());
            buffer = std::move(more);
        }
        std::fill(buffer.get() + kept, buffer.get() + width, 0);
    };
    made.weight.kind = whole.kind;
    if (whole.kind == Matrix::Kind::int8) {
        grow(made.scales, from.scales);
        grow(made.sums, from.sums);
        const int8_t* panels = reinterpret_cast<const int8_t*>(made.panels.get());
        made.weight.int8 = Int8Matrix{panels, made.scales.get(), made.sums.get(), columns, whole.int8.inputs, whole.int8.levels};
    } else if (whole.kind == Matrix::Kind::bfloat16) {
        made.weight.bfloat16 = Bfloat16Matrix{reinterpret_cast<const uint16_t*>(made.panels.get()), columns, whole.bfloat16.inputs};
    } else {
        made.weight.float32 = FloatMatrix{reinterpret_cast<const float*>(made.panels.get()), columns, whole.float32.inputs};
    }
    if (model.output_bias) {
        grow(made.biases, from.biases);
        made.bias = made.biases.get();
    }
}

// Fill the columns [first, last), from `near` where it has them: it is small, and fresh in the caches.
void fill_some(const Model& model, const Gathered* near, int64_t first, int64_t last, Gathered& made) {
    const Matrix& whole = model.output_weight;
    const int64_t units = units_of(whole);
    for (int64_t start = first; start < last; start += columns_at_once) {
        const int64_t count = std::min(columns_at_once, last - start);
        const uint8_t* from[columns_at_once];
        uint8_t* to[columns_at_once];
        for (int64_t i = 0; i < count; ++i) {
            const int32_t token = made.tokens[static_cast<std::size_t>(start + i)];
            const int32_t known = near ? near->column(token) : -1;
            from[i] = known < 0 ? panels_of(whole) + offset_of(token, units) : near->panels.get() + offset_of(known, units);
            to[i] = made.panels.get() + offset_of(start + i, units);
            if (whole.kind == Matrix::Kind::int8) {
                made.scales.get()[start + i] = whole.int8.scales[token];
                made.sums.get()[start + i] = whole.int8.sums[token];
            }
            if (model.output_bias) made.biases.get()[start + i] = model.output_bias[token];
        }
        for (int64_t k = 0; k < units; ++k) {
            for (int64_t i = 0; i < count; ++i) std::memcpy(to[i] + k * panel * unit, from[i] + k * panel * unit, unit);
        }
    }
}

// The columns from `first` on, shared out among the threads in whole panels.
void fill(const Model& model, const Gathered* near, int64_t first, Gathered& made) {
    const int64_t columns = static_cast<int64_t>(made.tokens.size()), begin = first / panel, panels = rounded(columns, panel) / panel - begin;
    const int64_t parts = std::clamp<int64_t>(panels / least_panels, 1, model.workers.threads());
    model.workers.run(parts, [&](int64_t part) {
        const int64_t from = begin + panels * part / parts, to = begin + panels * (part + 1) / parts;
        fill_some(model, near, std::max(first, from * panel), std::min(columns, to * panel), made);
    });
}

int32_t* make_map(Gathered& made, int64_t vocabulary) {
    made.vocabulary = vocabulary;
    made.map = made.reused->maps.take(vocabulary * static_cast<int64_t>(sizeof(int32_t)));
    return reinterpret_cast<int32_t*>(made.map.get());
}

// `base` and behind it what it lacks of the lists; `base` itself where that is nothing. What nobody else holds is
// extended in its place.
GatheredPtr extended(const Model& model, GatheredPtr base, const std::vector<TokensPtr>& lists, const Gathered* near) {
    const auto lacks = [&base](int32_t token) { return base->column(token) < 0; };
    const auto complete = [&](const TokensPtr& list) { return std::none_of(list->begin(), list->end(), lacks); };
    if (std::all_of(lists.begin(), lists.end(), complete)) return base;
    std::shared_ptr<Gathered> made;
    if (base->common && base.use_count() == 1) {
        made = std::const_pointer_cast<Gathered>(base);
    } else {
        made = std::make_shared<Gathered>(base->reused);
        made->tokens = base->tokens;
        std::memcpy(make_map(*made, base->vocabulary), base->map.get(), static_cast<std::size_t>(base->vocabulary) * sizeof(int32_t));
        made->common = base->common ? base->common : base;
    }
    made->sentences = static_cast<int64_t>(lists.size());
    int32_t* const columns = reinterpret_cast<int32_t*>(made->map.get());
    const std::size_t held = made->tokens.size();
    for (const TokensPtr& list : lists) {
        for (const int32_t token : *list) {
            if (columns[token] >= 0) continue;
            columns[token] = 0;  // until its place is known
            made->tokens.push_back(token);
        }
    }
    std::sort(made->tokens.begin() + static_cast<std::ptrdiff_t>(held), made->tokens.end());  // neighbours are near in memory
    for (std::size_t i = held; i < made->tokens.size(); ++i) columns[made->tokens[i]] = static_cast<int32_t>(i);
    make_room(model, *base, static_cast<int64_t>(held), *made);
    fill(model, near, static_cast<int64_t>(held), *made);
    return made;
}

TokensPtr columns_of(const Gathered& gathered, const Tokens& list) {
    auto columns = std::make_shared<Tokens>();
    columns->reserve(list.size());
    for (const int32_t token : list) columns->push_back(gathered.column(token));
    return columns;
}

std::vector<TokensPtr> lists_of(const State& state) {
    std::vector<TokensPtr> lists;
    lists.reserve(state.sentences.size());
    for (const State::Sentence& sentence : state.sentences) lists.push_back(sentence.memory.allowed);
    return lists;
}

}  // namespace

Buffer<uint8_t> BufferPool::take(int64_t bytes) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (std::size_t i = free_.size(); i-- > 0;) {
            if (free_[i].size() < bytes) continue;
            std::swap(free_[i], free_.back());
            Buffer<uint8_t> one = std::move(free_.back());
            free_.pop_back();
            return one;
        }
    }
    return Buffer<uint8_t>(bytes + bytes / 8);  // the next batch may need some more
}

void BufferPool::give(Buffer<uint8_t> one) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() == most_kept) free_.erase(free_.begin());
    free_.push_back(std::move(one));
}

Shortlist::Shortlist(const Model& model, Tokens common, Tokens first, Tokens targets, bool own, int64_t multiple)
    : common_(std::move(common)), first_(std::move(first)), targets_(std::move(targets)), own_(own),
      multiple_(static_cast<std::size_t>(multiple)), vocabulary_(static_cast<std::size_t>(model.target_vocabulary)) {
    auto made = std::make_shared<Gathered>(std::make_shared<Gathered::Reused>());
    made->tokens = common_;
    int32_t* columns = make_map(*made, model.target_vocabulary);
    std::fill(columns, columns + model.target_vocabulary, -1);
    for (std::size_t i = 0; i < common_.size(); ++i) columns[common_[i]] = static_cast<int32_t>(i);
    make_room(model, *made, 0, *made);
    fill(model, nullptr, 0, *made);
    gathered_ = std::move(made);
}

TokensPtr Shortlist::of(const std::vector<int32_t>& source) const {
    auto list = std::make_shared<Tokens>(common_);
    for (const int32_t token : source) {
        const std::size_t at = static_cast<std::size_t>(token);
        list->insert(list->end(), targets_.begin() + first_[at], targets_.begin() + first_[at + 1]);
        if (own_) list->push_back(token);
    }
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
    std::size_t wanted = (multiple_ - list->size() % multiple_) % multiple_;
    if (wanted == 0) return list;
    auto filled = std::make_shared<Tokens>();
    filled->reserve(list->size() + wanted);
    std::size_t at = 0;
    for (std::size_t token = 0; token < vocabulary_ && (wanted || at < list->size()); ++token) {
        const bool held = at < list->size() && (*list)[at] == static_cast<int32_t>(token);
        if (!held && !wanted) {
            filled->insert(filled->end(), list->begin() + static_cast<std::ptrdiff_t>(at), list->end());
            break;
        }
        held ? ++at : --wanted;
        filled->push_back(static_cast<int32_t>(token));
    }
    return filled;
}

void restrict_to(const Shortlist& shortlist, const std::vector<std::vector<int32_t>>& sources, Memory& memory) {
    for (std::size_t s = 0; s < sources.size(); ++s) memory.sentences[s].allowed = shortlist.of(sources[s]);
    memory.common = shortlist.gathered();
}

void gather_extended(State& state, GatheredPtr from) {
    state.gathered = extended(*state.model, std::move(from), lists_of(state), nullptr);
    for (State::Sentence& sentence : state.sentences) {
        if (!sentence.columns) sentence.columns = columns_of(*state.gathered, *sentence.memory.allowed);
    }
}

void regather(State& state) {
    const GatheredPtr old = state.gathered;
    state.gathered = extended(*state.model, old->common ? old->common : old, lists_of(state), old.get());
    for (State::Sentence& sentence : state.sentences) sentence.columns = columns_of(*state.gathered, *sentence.memory.allowed);
}

bool mostly_unused(const State& state) {
    const Gathered& gathered = *state.gathered;
    if (!gathered.common) return false;
    std::vector<uint8_t> used(static_cast<std::size_t>(gathered.vocabulary));
    std::size_t count = 0;
    const auto mark = [&](const Tokens& tokens) {
        for (const int32_t token : tokens) {
            uint8_t& mine = used[static_cast<std::size_t>(token)];
            count += !mine;
            mine = 1;
        }
    };
    mark(gathered.common->tokens);
    for (const State::Sentence& sentence : state.sentences) mark(*sentence.memory.allowed);
    return static_cast<double>(gathered.tokens.size()) > regather_factor * static_cast<double>(count);
}

}  // namespace uwaga
