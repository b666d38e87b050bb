// Shortlists: sentences restricted to a part of the target vocabulary.
//
// Each sentence has its own list. Only the logits of its tokens are computed, in the order of token ids and
// independent of other sentences; for this, the output layer is stored token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "network/network.h"

namespace uwaga {

// The target tokens that go with each source token, and those that go with all.
class Shortlist {
  public:
    // `common` and, for each source token s, targets[first[s]] to targets[first[s + 1]] ascend. `first` and
    // `targets` are not copied; the owner of the shortlist keeps them alive. copy_source: a source token may
    // be copied to the target. Lists are filled up to a multiple of `multiple` with the lowest missing
    // tokens.
    Shortlist(const Network& network, Tokens common, const int32_t* first, const int32_t* targets,
              bool copy_source, int64_t multiple);
    AllowedPtr allowed_for(const Tokens& source) const;

  private:
    const Network& network_;  // kept alive by every owner of a shortlist
    Tokens common_;
    const int32_t *first_, *targets_;
    bool copy_source_;
    int64_t multiple_;
    std::shared_ptr<const Buffer<uint8_t>> weights_;
};

// Give a sentence a datastore, whose tokens its shortlist then has too; a null one changes nothing.
void attach(const Network& network, const DatastorePtr& datastore, EncodedSentence& sentence);

void restrict_to(const Shortlist& shortlist, const std::vector<Tokens>& sources, Memory& memory);

}  // namespace uwaga
