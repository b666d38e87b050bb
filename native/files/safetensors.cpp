#include "files/safetensors.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "files/json.h"

namespace uwaga {

namespace {

struct Format {
    std::string_view name;
    std::size_t bytes;
};
// In the order of Dtype.
constexpr Format formats[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"U16", 2}, {"I16", 2},
                              {"U32", 4},  {"I32", 4}, {"U64", 8}, {"I64", 8}, {"F16", 2},
                              {"BF16", 2}, {"F32", 4}, {"F64", 8}};

[[noreturn]] void refuse(const std::string& problem) {
    throw std::invalid_argument("damaged or not a safetensors file: " + problem);
}

std::size_t size_of(const Json& value, const std::string& name) {
    const int64_t* size = value.integer();
    if (!size || *size < 0) refuse("\"" + name + "\" has a size that is no whole number");
    return static_cast<std::size_t>(*size);
}

struct Range {
    std::size_t start, end;
    const std::string* name;
    bool operator<(const Range& other) const {
        return std::tie(start, end) < std::tie(other.start, other.end);
    }
};

// A tensor without its bytes, and the range of its bytes.
Tensor described(const std::string& name, const Json& entry, Range& range) {
    const Json *dtype = entry.find("dtype"), *shape = entry.find("shape"),
               *offsets = entry.find("data_offsets");
    if (!dtype || !dtype->string() || !shape || !shape->array() || !offsets || !offsets->array() ||
        offsets->array()->size() != 2) {
        refuse("\"" + name + "\" lacks its dtype, shape or data_offsets");
    }
    Tensor tensor;
    const auto format = std::find_if(std::begin(formats), std::end(formats), [&](const Format& candidate) {
        return candidate.name == *dtype->string();
    });
    if (format == std::end(formats))
        refuse("\"" + name + "\" is stored as " + *dtype->string() + ", which is not supported");
    tensor.dtype = static_cast<Dtype>(format - std::begin(formats));
    range = {size_of((*offsets->array())[0], name), size_of((*offsets->array())[1], name), &name};
    std::size_t bytes = format->bytes;
    for (const Json& axis : *shape->array()) {
        const std::size_t length = size_of(axis, name);
        tensor.shape.push_back(static_cast<int64_t>(length));
        if (length && bytes > SIZE_MAX / length) refuse("\"" + name + "\" is too large");
        bytes *= length;
    }
    if (range.end < range.start || range.end - range.start != bytes)
        refuse("the shape of \"" + name + "\" does not fit its data_offsets");
    return tensor;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return formats[static_cast<std::size_t>(dtype)].name; }
std::size_t dtype_bytes(Dtype dtype) { return formats[static_cast<std::size_t>(dtype)].bytes; }

Safetensors::Safetensors(std::string_view file) {
    constexpr std::size_t prefix = 8;
    if (file.size() < prefix) refuse("it is shorter than 8 bytes");
    uint64_t length = 0;
    for (std::size_t byte = prefix; byte-- > 0;)
        length = length << 8 | static_cast<unsigned char>(file[byte]);
    if (length > max_header_bytes) refuse("its header is longer than 100 MB");
    if (length > file.size() - prefix) refuse("it ends within its header");
    const std::string_view header = file.substr(prefix, static_cast<std::size_t>(length));
    const std::string_view data = file.substr(prefix + header.size());
    if (header.empty() || header[0] != '{') refuse("its header is no JSON object");
    const Json entries = Json::read(header);
    std::vector<Range> ranges;
    for (const Json::Member& entry : *entries.object()) {
        if (entry.key == "__metadata__") {
            if (!entry.value.object()) refuse("its __metadata__ is no JSON object");
            for (const Json::Member& note : *entry.value.object()) {
                if (!note.value.string()) refuse("its __metadata__ has a value that is no text");
                metadata_.emplace(note.key, *note.value.string());
            }
            continue;
        }
        Range range{};
        Tensor tensor = described(entry.key, entry.value, range);
        if (range.end > data.size()) refuse("it ends within \"" + entry.key + "\"");
        tensor.bytes = data.substr(range.start, range.end - range.start);
        tensors_.emplace(entry.key, std::move(tensor));
        ranges.push_back(range);
    }
    std::sort(ranges.begin(), ranges.end());
    std::size_t end = 0;
    for (const Range& range : ranges) {
        if (range.start != end) refuse("there is a hole or an overlap before \"" + *range.name + "\"");
        end = range.end;
    }
    if (end != data.size()) refuse("bytes follow the last tensor");
}

const Tensor* Safetensors::find(std::string_view name) const {
    const auto tensor = tensors_.find(name);
    return tensor == tensors_.end() ? nullptr : &tensor->second;
}

}  // namespace uwaga
