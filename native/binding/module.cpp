// The module uwaga.engine._core: arrays in, arrays out, everything checked at this border.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>

#include "transformer/state.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace uwaga {

namespace {

template <class T>
using Array = nb::ndarray<nb::numpy, const T, nb::c_contig, nb::device::cpu>;
template <class T, int N>
using Shaped = nb::ndarray<nb::numpy, const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

// Ctrl-C while the interpreter's lock is free: signals are handled in the main thread alone, which looks for them ten
// times a second.
std::thread::id main_thread;

void check_signals() {
    if (std::this_thread::get_id() != main_thread) return;
    static std::chrono::steady_clock::time_point next;
    const auto now = std::chrono::steady_clock::now();
    if (now < next) return;
    next = now + std::chrono::milliseconds(100);
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

// ---- Weights ----------------------------------------------------------------------------------------------------

// A packed matrix and the arrays that it lies in.
struct Packed {
    Matrix matrix;
    nb::object panels, scales, sums;
};

template <class T>
void check(const Array<T>& array, int64_t wanted, const char* what) {
    if (static_cast<int64_t>(array.size()) != wanted) {
        refuse(std::string(what) + ": " + std::to_string(array.size()) + " numbers where " + std::to_string(wanted) + " are wanted");
    }
}

void check_sizes(int64_t outputs, int64_t inputs) {
    if (outputs < 1 || inputs < 1 || outputs >= int64_t{1} << 31 || inputs >= int64_t{1} << 31) refuse("a matrix of impossible size");
}

// Sums over more inputs than these may overflow; levels and sums are a file's word, and the products rely on them.
constexpr int64_t most_int8_inputs = 65536;

void check_int8_inputs(int64_t inputs) {
    if (inputs > most_int8_inputs) refuse("a matrix of " + std::to_string(inputs) + " inputs, and int8 takes at most " + std::to_string(most_int8_inputs));
}

void check_int8(const Int8Matrix& w) {
    constexpr int64_t group = 4 * panel, most_groups = 256;  // whose sums a 16-bit number holds
    const int64_t groups = padded_inputs(w.inputs) / 4;
    const int8_t most = static_cast<int8_t>(w.levels);
    const int8_t* from = w.panels;
    int beyond = 0;
    for (int64_t first = 0; first < padded_outputs(w.outputs); first += panel) {
        int32_t sums[panel] = {};
        for (int64_t g = 0; g < groups; g += most_groups) {
            int16_t some[group] = {};
            for (int64_t i = g; i < std::min(groups, g + most_groups); ++i, from += group) {
                int8_t outside = 0;
                for (int64_t k = 0; k < group; ++k) {
                    some[k] = static_cast<int16_t>(some[k] + from[k]);
                    outside |= static_cast<int8_t>((from[k] > most) | (from[k] < -most));
                }
                beyond |= outside;
            }
            for (int64_t k = 0; k < group; ++k) sums[k / 4] += some[k];
        }
        for (int64_t n = 0; n < panel; ++n) {
            if (w.sums[first + n] != 128 * sums[n]) refuse("sums: not those of the panels");
        }
    }
    if (beyond) refuse("panels: numbers beyond the " + std::to_string(w.levels) + " levels");
}

void check_aligned(const void* data) {
    if (reinterpret_cast<uintptr_t>(data) % alignment) refuse("panels: not aligned to 64 bytes");
}

Packed int8_matrix(int64_t outputs, int64_t inputs, int levels, Array<int8_t> panels, Array<float> scales, Array<int32_t> sums) {
    check_sizes(outputs, inputs);
    check_int8_inputs(inputs);
    if (levels < 1 || levels > 127) refuse("levels: from 1 to 127");
    check(panels, padded_outputs(outputs) * padded_inputs(inputs), "panels");
    check(scales, padded_outputs(outputs), "scales");
    check(sums, padded_outputs(outputs), "sums");
    check_aligned(panels.data());
    Packed packed;
    packed.matrix.kind = Matrix::Kind::int8;
    packed.matrix.int8 = Int8Matrix{panels.data(), scales.data(), sums.data(), outputs, inputs, levels};
    check_int8(packed.matrix.int8);
    packed.panels = nb::cast(panels);
    packed.scales = nb::cast(scales);
    packed.sums = nb::cast(sums);
    return packed;
}

Packed bfloat16_matrix(int64_t outputs, int64_t inputs, Array<uint16_t> panels) {
    check_sizes(outputs, inputs);
    check(panels, bfloat16_panels_size(outputs, inputs), "panels");
    check_aligned(panels.data());
    Packed packed;
    packed.matrix.kind = Matrix::Kind::bfloat16;
    packed.matrix.bfloat16 = Bfloat16Matrix{panels.data(), outputs, inputs};
    packed.panels = nb::cast(panels);
    return packed;
}

Packed float_matrix(int64_t outputs, int64_t inputs, Array<float> panels) {
    check_sizes(outputs, inputs);
    check(panels, float_panels_size(outputs, inputs), "panels");
    check_aligned(panels.data());
    Packed packed;
    packed.matrix.kind = Matrix::Kind::float32;
    packed.matrix.float32 = FloatMatrix{panels.data(), outputs, inputs};
    packed.panels = nb::cast(panels);
    return packed;
}

template <class T>
nb::object owned(T* data, std::initializer_list<std::size_t> shape) {
    nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

template <class T>
T* room(int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(rounded(std::max<int64_t>(count, 1) * static_cast<int64_t>(sizeof(T)), alignment));
    void* data = std::aligned_alloc(alignment, bytes);
    if (!data) throw std::bad_alloc();
    return static_cast<T*>(data);
}

nb::tuple packed_int8(Shaped<float, 2> w, int levels) {
    if (levels < 1 || levels > 127) refuse("levels: from 1 to 127");
    const int64_t outputs = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    check_sizes(outputs, inputs);
    check_int8_inputs(inputs);
    const int64_t size = padded_outputs(outputs) * padded_inputs(inputs), scales_size = padded_outputs(outputs);
    int8_t* panels = room<int8_t>(size);
    float* scales = room<float>(scales_size);
    int32_t* sums = room<int32_t>(scales_size);
    {
        const nb::gil_scoped_release free;
        pack_int8(w.data(), outputs, inputs, levels, panels, scales, sums);
    }
    const std::size_t n = static_cast<std::size_t>(scales_size);
    return nb::make_tuple(owned(panels, {static_cast<std::size_t>(size)}), owned(scales, {n}), owned(sums, {n}));
}

nb::object packed_bfloat16(Shaped<float, 2> w) {
    const int64_t outputs = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    check_sizes(outputs, inputs);
    const int64_t size = bfloat16_panels_size(outputs, inputs);
    uint16_t* panels = room<uint16_t>(size);
    {
        const nb::gil_scoped_release free;
        pack_bfloat16(w.data(), outputs, inputs, panels);
    }
    return owned(panels, {static_cast<std::size_t>(size)});
}

nb::object packed_float(Shaped<float, 2> w) {
    const int64_t outputs = static_cast<int64_t>(w.shape(0)), inputs = static_cast<int64_t>(w.shape(1));
    check_sizes(outputs, inputs);
    const int64_t size = float_panels_size(outputs, inputs);
    float* panels = room<float>(size);
    {
        const nb::gil_scoped_release free;
        pack_float(w.data(), outputs, inputs, panels);
    }
    return owned(panels, {static_cast<std::size_t>(size)});
}

// ---- Building a model -------------------------------------------------------------------------------------------

// Takes weights by name, checks each against what it must fit, and remembers which were used.
class Builder {
  public:
    Builder(Model& model, const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors)
        : model_(model), settings_(settings), matrices_(matrices), vectors_(vectors) {}

    void build() {
        Shape& shape = model_.shape;
        shape.width = whole("width", 1);
        shape.max_length = whole("max_length", 1);
        shape.encoder = heads("encoder");
        shape.decoder = heads("decoder");
        shape.max_distance = whole("max_distance", 0);
        shape.shared_width = whole("shared_width", 0);
        shape.pre_norm = whole("pre_norm", 0);
        shape.rms = whole("rms", 0);
        shape.float16_cache = whole("float16_cache", 0);
        shape.epsilon = number("epsilon");
        shape.embedding_scale = number("embedding_scale");
        shape.output_scale = number("output_scale");
        shape.activation = static_cast<Activation>(whole("activation", 0));
        if (static_cast<int>(shape.activation) > 4) refuse("activation: unknown");
        model_.source_vocabulary = whole("source_vocabulary", 0);
        model_.target_vocabulary = whole("target_vocabulary", 1);
        model_.workers.configure(whole("threads", 1), &check_signals);

        const int64_t width = shape.width;
        if (model_.has_source()) model_.source = side("source", model_.source_vocabulary, shape.encoder.count);
        model_.target = side("target", model_.target_vocabulary, shape.decoder.count);
        for (int64_t l = 0; model_.has_source() && l < whole("encoder_layers", 1); ++l) {
            const std::string at = "encoder." + std::to_string(l) + ".";
            EncoderLayer layer;
            layer.query_key_value = linear(at + "attention.query_key_value", 3 * shape.encoder.inner(), width);
            layer.self_output = linear(at + "attention.output", width, shape.encoder.inner());
            layer.self_norm = norm(at + "attention_norm");
            layer.feed_forward = feed_forward(at);
            model_.encoder.push_back(layer);
        }
        const int64_t inner = shape.decoder.inner();
        for (int64_t l = 0; l < whole("decoder_layers", 1); ++l) {
            const std::string at = "decoder." + std::to_string(l) + ".", self = at + (model_.has_source() ? "self_attention" : "attention");
            DecoderLayer layer;
            layer.query_key_value = linear(self + ".query_key_value", 3 * inner, width);
            layer.self_output = linear(self + ".output", width, inner);
            layer.self_norm = norm(self + "_norm");
            if (model_.has_source()) {
                layer.query = linear(at + "cross_attention.query", inner, width);
                layer.key_value = linear(at + "cross_attention.key_value", 2 * inner, width);
                layer.cross_output = linear(at + "cross_attention.output", width, inner);
                layer.cross_norm = norm(at + "cross_attention_norm");
            }
            layer.feed_forward = feed_forward(at);
            model_.decoder.push_back(layer);
        }
        if (shape.pre_norm) {
            if (model_.has_source()) model_.encoder_norm = norm("encoder_norm");
            model_.decoder_norm = norm("decoder_norm");
        }
        model_.output_weight = matrix("output", model_.target_vocabulary, width);
        model_.output_bias = optional_vector("output.bias", model_.target_vocabulary);
        order();
        const std::size_t given = matrices_.size() + vectors_.size();
        if (used_.size() != given) refuse("weights that the model does not use");
        const int64_t page = page_entries * model_.key_value_width() * static_cast<int64_t>(model_.decoder.size()) * model_.cache_element_size();
        model_.pages.configure(page);
        model_.chunks.configure(page / page_entries * group_rows);
    }

  private:
    // Tells each int8 matrix which one is read after it: in a file they lie in another order.
    void order() {
        std::vector<Matrix*> read;
        const auto add = [&](std::initializer_list<Linear*> linears) {
            for (Linear* linear : linears) {
                if (linear->weight) read.push_back(&linear->weight);
            }
        };
        for (EncoderLayer& l : model_.encoder) {
            add({&l.query_key_value, &l.self_output, &l.feed_forward.gate, &l.feed_forward.inner, &l.feed_forward.outer});
        }
        for (DecoderLayer& l : model_.decoder) add({&l.key_value});
        const std::size_t step = read.size();
        for (DecoderLayer& l : model_.decoder) {
            add({&l.query_key_value, &l.self_output, &l.query, &l.cross_output, &l.feed_forward.gate, &l.feed_forward.inner, &l.feed_forward.outer});
        }
        read.push_back(&model_.output_weight);
        for (std::size_t i = 0; i < read.size(); ++i) {
            const Matrix& next = *read[i + 1 < read.size() ? i + 1 : step];
            if (read[i]->kind != Matrix::Kind::int8 || next.kind != Matrix::Kind::int8) continue;
            read[i]->int8.prefetch = next.int8.panels;
            read[i]->int8.prefetch_size = int8_panels_size(next.int8.outputs, next.int8.inputs);
        }
    }

    int64_t whole(const std::string& name, int64_t least) const {
        const int64_t value = nb::cast<int64_t>(settings_[name.c_str()]);
        if (value < least || value >= int64_t{1} << 31) refuse(name + ": impossible");
        return value;
    }
    float number(const std::string& name) const { return nb::cast<float>(settings_[name.c_str()]); }
    Heads heads(const std::string& stack) const {
        return {whole(stack + "_heads", 1), whole(stack + "_head_width", 1), number(stack + "_scale")};
    }

    void use(const std::string& name) {
        if (std::find(used_.begin(), used_.end(), name) == used_.end()) used_.push_back(name);
    }

    Matrix matrix(const std::string& name, int64_t outputs, int64_t inputs) {
        if (!matrices_.contains(name.c_str())) refuse(name + ": the weight is missing");
        use(name);
        const Matrix found = nb::cast<const Packed&>(matrices_[name.c_str()]).matrix;
        if (found.outputs() != outputs || found.inputs() != inputs) {
            refuse(name + ": is " + std::to_string(found.outputs()) + " x " + std::to_string(found.inputs()) + " where " +
                   std::to_string(outputs) + " x " + std::to_string(inputs) + " is wanted");
        }
        return found;
    }

    // A copy, with zeros up to a whole panel.
    const float* vector(const std::string& name, int64_t size) {
        if (!vectors_.contains(name.c_str())) refuse(name + ": the weight is missing");
        use(name);
        const Array<float> found = nb::cast<Array<float>>(vectors_[name.c_str()]);
        check(found, size, name.c_str());
        Buffer<float> copy(rounded(size, panel));
        std::copy(found.data(), found.data() + size, copy.get());
        std::fill(copy.get() + size, copy.get() + rounded(size, panel), 0.0f);
        model_.vectors.push_back(std::move(copy));
        return model_.vectors.back().get();
    }
    const float* optional_vector(const std::string& name, int64_t size) {
        return vectors_.contains(name.c_str()) ? vector(name, size) : nullptr;
    }

    Linear linear(const std::string& name, int64_t outputs, int64_t inputs) {
        return {matrix(name, outputs, inputs), optional_vector(name + ".bias", outputs)};
    }
    Norm norm(const std::string& name) {
        const int64_t width = model_.shape.width;
        return {vector(name + ".weight", width), model_.shape.rms ? nullptr : vector(name + ".bias", width)};
    }
    FeedForward feed_forward(const std::string& at) {
        const std::string name = at + "feed_forward.inner";
        if (!matrices_.contains(name.c_str())) refuse(name + ": the weight is missing");
        const int64_t inner = nb::cast<const Packed&>(matrices_[name.c_str()]).matrix.outputs(), width = model_.shape.width;
        FeedForward layer;
        layer.inner = linear(name, inner, width);
        if (whole("gated", 0)) layer.gate = linear(at + "feed_forward.gate", inner, width);
        layer.outer = linear(at + "feed_forward.outer", width, inner);
        layer.norm = norm(at + "feed_forward_norm");
        return layer;
    }
    Side side(const std::string& name, int64_t vocabulary, int64_t heads) {
        const Shape& shape = model_.shape;
        const bool own = matrices_.contains((name + "_embedding").c_str());
        Side made;
        made.embedding = matrix(own ? name + "_embedding" : "output", vocabulary, shape.width);
        made.positions = optional_vector(name + "_positions", shape.max_length * shape.width);
        made.relative_bias = optional_vector(name + "_relative_bias", heads * (2 * shape.max_distance + 1));
        if (vectors_.contains((name + "_norm.weight").c_str())) made.norm = norm(name + "_norm");
        return made;
    }

    Model& model_;
    const nb::dict &settings_, &matrices_, &vectors_;
    std::vector<std::string> used_;
};

// What Python holds: the model and the arrays that its panels lie in.
struct Handle {
    std::shared_ptr<Model> model;
    nb::dict matrices;
};

Handle build(const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors, int isa) {
    if (isa < 0 || isa > static_cast<int>(Isa::amx) || !supported(static_cast<Isa>(isa))) refuse("isa: not supported here");
    Handle handle{std::make_shared<Model>(), nb::dict()};
    handle.matrices.update(matrices);
    handle.model->kernels = &kernels_of(static_cast<Isa>(isa));
    Builder(*handle.model, settings, matrices, vectors).build();
    return handle;
}

// ---- Running it -------------------------------------------------------------------------------------------------

// A memory or state keeps its handle, and so the arrays, alive.
struct PyMemory {
    Memory memory;
    std::shared_ptr<Handle> handle;
};
struct PyState {
    State state;
    std::shared_ptr<Handle> handle;
};
struct PyShortlist {
    Shortlist shortlist;
    std::shared_ptr<Handle> handle;
};

int32_t checked_token(int64_t token, int64_t vocabulary) {
    if (token < 0 || token >= vocabulary) {
        refuse("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocabulary));
    }
    return static_cast<int32_t>(token);
}

// Tokens [first, last) must be in the vocabulary and rise.
void check_rising(const Tokens& tokens, int64_t first, int64_t last, int64_t vocabulary, const char* what) {
    for (int64_t i = first; i < last; ++i) {
        const int32_t token = tokens[static_cast<std::size_t>(i)];
        checked_token(token, vocabulary);
        if (i > first && token <= tokens[static_cast<std::size_t>(i - 1)]) refuse(std::string(what) + ": the tokens do not rise");
    }
}

PyShortlist shortlist_of(const std::shared_ptr<Handle>& handle, Shaped<int32_t, 1> common, Shaped<int32_t, 1> first, Shaped<int32_t, 1> targets) {
    const Model& model = *handle->model;
    const auto copied = [](const Shaped<int32_t, 1>& array) { return Tokens(array.data(), array.data() + array.size()); };
    Tokens all = copied(common), starts = copied(first), of_each = copied(targets);
    if (all.empty()) refuse("common: at least the end symbol is wanted");
    check_rising(all, 0, static_cast<int64_t>(all.size()), model.target_vocabulary, "common");
    if (static_cast<int64_t>(starts.size()) != model.source_vocabulary + 1) refuse("first: one place is wanted for each source token, and the end");
    if (starts.front() != 0 || starts.back() != static_cast<int64_t>(of_each.size())) refuse("first: it does not go from the beginning to the end of targets");
    for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
        if (starts[s] > starts[s + 1]) refuse("first: the places fall");
    }
    for (std::size_t s = 0; s + 1 < starts.size(); ++s) check_rising(of_each, starts[s], starts[s + 1], model.target_vocabulary, "targets");
    const nb::gil_scoped_release free;
    return {Shortlist(model, std::move(all), std::move(starts), std::move(of_each)), handle};
}

PyMemory encode_sources(const std::shared_ptr<Handle>& handle, const std::vector<std::vector<int64_t>>& sources, const PyShortlist* shortlist) {
    if (shortlist && shortlist->handle->model != handle->model) refuse("the shortlist is of another model");
    const Model& model = *handle->model;
    const bool encoded = model.has_source();
    const std::string kind = encoded ? "sentence " : "prompt ", vocabulary = encoded ? " is outside the source vocabulary of " : " is outside the vocabulary of ";
    const int64_t size = encoded ? model.source_vocabulary : model.target_vocabulary;
    std::vector<std::vector<int32_t>> checked;
    checked.reserve(sources.size());
    for (std::size_t s = 0; s < sources.size(); ++s) {
        const std::string place = kind + std::to_string(s + 1) + ": ";
        if (sources[s].empty()) refuse(place + (encoded ? "no tokens; a source holds at least its end symbol" : "no tokens; a prompt holds one at least"));
        if (static_cast<int64_t>(sources[s].size()) > model.shape.max_length) {
            throw TooLong(place + std::to_string(sources[s].size()) + " tokens, and the model takes at most " + std::to_string(model.shape.max_length));
        }
        std::vector<int32_t> tokens;
        tokens.reserve(sources[s].size());
        for (const int64_t token : sources[s]) {
            if (token < 0 || token >= size) refuse(place + "token " + std::to_string(token) + vocabulary + std::to_string(size));
            tokens.push_back(static_cast<int32_t>(token));
        }
        checked.push_back(std::move(tokens));
    }
    const nb::gil_scoped_release free;
    Memory memory = encoded ? encode(handle->model, checked) : read_prompts(handle->model, checked);
    if (shortlist) restrict_to(shortlist->shortlist, checked, memory);
    return {std::move(memory), handle};
}

void add_bans(Request& request, const Shaped<int64_t, 2>& banned, int64_t rows, int64_t vocabulary) {
    if (banned.shape(1) != 2) refuse("banned: pairs of row and token are wanted");
    const int64_t count = static_cast<int64_t>(banned.shape(0));
    const int64_t* pairs = banned.data();
    request.banned_first.assign(static_cast<std::size_t>(rows + 1), 0);
    for (int64_t i = 0; i < count; ++i) {
        if (pairs[2 * i] < 0 || pairs[2 * i] >= rows) refuse("banned: there is no such row");
        checked_token(pairs[2 * i + 1], vocabulary);
        ++request.banned_first[static_cast<std::size_t>(pairs[2 * i] + 1)];
    }
    for (int64_t row = 0; row < rows; ++row) request.banned_first[static_cast<std::size_t>(row + 1)] += request.banned_first[static_cast<std::size_t>(row)];
    request.banned.resize(static_cast<std::size_t>(count));
    std::vector<int32_t> at(request.banned_first.begin(), request.banned_first.end());
    for (int64_t i = 0; i < count; ++i) request.banned[static_cast<std::size_t>(at[static_cast<std::size_t>(pairs[2 * i])]++)] = static_cast<int32_t>(pairs[2 * i + 1]);
    int32_t kept = 0;  // sorted, each token once
    for (int64_t row = 0; row < rows; ++row) {
        auto begin = request.banned.begin() + request.banned_first[static_cast<std::size_t>(row)];
        auto end = request.banned.begin() + request.banned_first[static_cast<std::size_t>(row + 1)];
        std::sort(begin, end);
        end = std::unique(begin, end);
        request.banned_first[static_cast<std::size_t>(row)] = kept;
        kept = static_cast<int32_t>(std::copy(begin, end, request.banned.begin() + kept) - request.banned.begin());
    }
    request.banned_first[static_cast<std::size_t>(rows)] = kept;
}

nb::tuple step_state(const PyState& self, Shaped<int64_t, 1> tokens, int64_t count, bool whole, bool attention, bool renormalise,
                     std::optional<Shaped<int64_t, 2>> banned, std::optional<Shaped<int64_t, 1>> forced,
                     std::optional<Shaped<double, 1>> uniform, double temperature, int64_t top_k, double top_p) {
    const State& state = self.state;
    const Model& model = *state.model;
    const int64_t rows = state.rows(), vocabulary = model.target_vocabulary;
    if (static_cast<int64_t>(tokens.shape(0)) != rows) refuse("tokens: one is wanted for each row of the state");
    std::vector<int32_t> checked(static_cast<std::size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) checked[static_cast<std::size_t>(row)] = checked_token(tokens.data()[row], vocabulary);
    if (!model.has_source()) feed_last_of_prompts(state, checked.data());
    Request request;
    request.count = count;
    request.whole = whole;
    request.renormalise = renormalise;
    request.temperature = temperature;
    request.top_k = top_k;
    request.top_p = top_p;
    if (count < 1 || !(temperature > 0) || top_k < 0) refuse("count, temperature or top_k: out of range");
    if (!whole && banned) add_bans(request, *banned, rows, vocabulary);
    if (!whole && forced) {
        if (static_cast<int64_t>(forced->shape(0)) != rows) refuse("forced: one is wanted for each row");
        for (int64_t row = 0; row < rows; ++row) {
            if (forced->data()[row] >= 0) checked_token(forced->data()[row], vocabulary);
        }
        request.forced = forced->data();
    }
    if (!whole && uniform) {
        if (static_cast<int64_t>(uniform->shape(0)) != rows) refuse("uniform: one is wanted for each row");
        request.uniform = uniform->data();
    }
    Answer answer;
    answer.k = whole ? vocabulary : request.uniform ? 1 : std::min(count, vocabulary);
    const auto size = [](int64_t n) { return static_cast<std::size_t>(n); };
    nb::object found = nb::none(), weights = nb::none();
    if (!whole) {
        answer.tokens = room<int64_t>(rows * answer.k);
        found = owned(answer.tokens, {size(rows), size(answer.k)});
    }
    answer.log_probs = room<float>(rows * answer.k);
    nb::object log_probs = owned(answer.log_probs, {size(rows), size(answer.k)});
    if (attention && model.has_source()) {
        for (const State::Sentence& sentence : state.sentences) answer.attention_width = std::max(answer.attention_width, sentence.memory.length);
        answer.attention = room<float>(rows * answer.attention_width);
        weights = owned(answer.attention, {size(rows), size(answer.attention_width)});
    }
    PyState next{{}, self.handle};
    {
        const nb::gil_scoped_release free;
        next.state = step(state, checked.data(), request, answer);
    }
    return nb::make_tuple(found, log_probs, nb::cast(std::move(next)), weights);
}

nb::object lengths_of(const PyMemory& self) {
    int64_t* lengths = room<int64_t>(static_cast<int64_t>(self.memory.sentences.size()));
    const auto& [model, sentences, common, prompts] = self.memory;
    for (std::size_t i = 0; i < sentences.size(); ++i) {
        lengths[i] = model->has_source() ? sentences[i].length : static_cast<int64_t>(prompts[i].offsets.size()) + 1;
    }
    return owned(lengths, {self.memory.sentences.size()});
}

}  // namespace

NB_MODULE(_core, m) {
    main_thread = std::this_thread::get_id();
    m.attr("ISAS") = nb::make_tuple("portable", "neon", "avx2", "avxvnni", "avx512vnni", "amx");
    nb::exception<TooLong>(m, "TooLongError", PyExc_ValueError);
    m.def("supported", [](int isa) { return isa >= 0 && isa <= static_cast<int>(Isa::amx) && supported(static_cast<Isa>(isa)); }, "isa"_a);
    m.def("best_isa", [] { return static_cast<int>(best_isa()); });
    m.def("pack_int8", &packed_int8, "weight"_a, "levels"_a);
    m.def("pack_bfloat16", &packed_bfloat16, "weight"_a);
    m.def("pack_float", &packed_float, "weight"_a);

    nb::class_<Packed>(m, "Matrix")
        .def_static("int8", &int8_matrix, "outputs"_a, "inputs"_a, "levels"_a, "panels"_a, "scales"_a, "sums"_a)
        .def_static("bfloat16", &bfloat16_matrix, "outputs"_a, "inputs"_a, "panels"_a)
        .def_static("float32", &float_matrix, "outputs"_a, "inputs"_a, "panels"_a);

    nb::class_<PyMemory>(m, "Memory")
        .def_prop_ro("sentences", [](const PyMemory& self) { return self.memory.sentences.size(); })
        .def_prop_ro("lengths", &lengths_of)
        .def("start", [](const PyMemory& self, int64_t beams) { return PyState{start(self.memory, beams), self.handle}; }, "beams"_a);

    nb::class_<PyState>(m, "State")
        .def("reorder", [](const PyState& self, Shaped<int64_t, 1> rows) {
            return PyState{reorder(self.state, rows.data(), static_cast<int64_t>(rows.shape(0))), self.handle};
        }, "rows"_a)
        .def("select", [](const PyState& self, Shaped<int64_t, 1> sentences) {
            return PyState{select(self.state, sentences.data(), static_cast<int64_t>(sentences.shape(0))), self.handle};
        }, "sentences"_a)
        .def_static("join", [](const std::vector<const PyState*>& states) {
            std::vector<const State*> parts;
            for (const PyState* state : states) {
                if (!state) refuse("join: None is no state");
                parts.push_back(&state->state);
            }
            State joined = join(parts);
            return PyState{std::move(joined), states[0]->handle};
        }, "states"_a)
        .def("step", &step_state, "tokens"_a, "count"_a, "whole"_a = false, "attention"_a = false, "renormalise"_a = false,
             "banned"_a = nb::none(), "forced"_a = nb::none(), "uniform"_a = nb::none(), "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0);

    nb::class_<PyShortlist>(m, "Shortlist");

    nb::class_<Handle>(m, "Model")
        .def("__init__", [](Handle* self, const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors, int isa) {
            new (self) Handle(build(settings, matrices, vectors, isa));
        }, "settings"_a, "matrices"_a, "vectors"_a, "isa"_a)
        .def("shortlist", &shortlist_of, "common"_a, "first"_a, "targets"_a)
        .def("encode", &encode_sources, "sources"_a, "shortlist"_a.none() = nb::none());
}

}  // namespace uwaga
