#include "network/network.h"

namespace uwaga {

State Network::verify(const State&, const std::vector<int64_t>&, const int32_t*, const Request&,
                      const Answer&) const {
    throw std::logic_error("the model takes one token at a time");
}

void Network::check(const Edits&) const {
    throw EditMismatch("the model is recurrent; only the attention of a Transformer can be edited");
}

NetworkPtr Network::edited(Edits edits, void (*)()) const {
    check(edits);
    return shared_from_this();
}

Memory Network::adopt(const Memory& memory) const {
    if (memory.network.get() != this) throw std::invalid_argument("the memory belongs to another model");
    return memory;
}

std::vector<NamedArray> Network::insight_arrays(int64_t, int64_t, const std::vector<std::string>&) const {
    throw NoSuchArray("the model is recurrent; insight is for Transformers");
}

std::vector<NamedArray> Network::insight(const Tokens& source, const Tokens& target,
                                         const std::vector<std::string>& selection, int64_t) const {
    return insight_arrays(static_cast<int64_t>(source.size()), static_cast<int64_t>(target.size()),
                          selection);
}

}  // namespace uwaga
