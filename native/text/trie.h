// A prefix tree of byte strings.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace uwaga {

// Children of a node are numbered side by side, in the order of their bytes.
class Trie {
  public:
    static constexpr int32_t none = -1;

    Trie() = default;
    // Keys, none of them empty and no two equal, with their values, none below 0.
    explicit Trie(std::vector<std::pair<std::string_view, int32_t>> keys) {
        std::sort(keys.begin(), keys.end());
        struct Span {
            std::size_t first, last, depth;
        };
        std::vector<Span> spans = {{0, keys.size(), 0}};  // of each node: the keys below it
        nodes_ = {Node{}};
        bytes_ = {0};
        for (std::size_t node = 0; node < nodes_.size(); ++node) {
            auto [at, last, depth] = spans[node];
            if (at < last && keys[at].first.size() == depth) nodes_[node].value = keys[at++].second;
            nodes_[node].first = static_cast<int32_t>(nodes_.size());
            while (at < last) {
                const char byte = keys[at].first[depth];
                const std::size_t begin = at;
                while (at < last && keys[at].first[depth] == byte) ++at;
                spans.push_back({begin, at, depth + 1});
                nodes_.push_back(Node{});
                bytes_.push_back(static_cast<unsigned char>(byte));
            }
            nodes_[node].last = static_cast<int32_t>(nodes_.size());
        }
        if (nodes_.empty()) return;
        roots_.fill(none);
        for (int32_t child = nodes_[0].first; child < nodes_[0].last; ++child) roots_[bytes_[static_cast<std::size_t>(child)]] = child;
    }

    // The node that a byte leads to, or none.
    int32_t child(int32_t node, char byte) const {
        const auto wanted = static_cast<unsigned char>(byte);
        if (node == 0) return roots_[wanted];
        const Node& at = nodes_[static_cast<std::size_t>(node)];
        const auto first = bytes_.begin() + at.first, last = bytes_.begin() + at.last;
        const auto found = std::lower_bound(first, last, wanted);
        return found == last || *found != wanted ? none : static_cast<int32_t>(found - bytes_.begin());
    }
    // The value of the key that ends at a node, or none.
    int32_t value(int32_t node) const { return nodes_[static_cast<std::size_t>(node)].value; }
    bool empty() const { return nodes_.size() < 2; }

    // Bytes of the longest key at the start of a text, 0 if there is none.
    std::size_t longest_prefix(std::string_view text) const {
        std::size_t longest = 0;
        if (empty()) return longest;
        int32_t node = 0;
        for (std::size_t at = 0; at < text.size(); ++at) {
            node = child(node, text[at]);
            if (node == none) break;
            if (value(node) != none) longest = at + 1;
        }
        return longest;
    }

  private:
    struct Node {
        int32_t first = 0, last = 0;  // children
        int32_t value = none;
    };
    std::vector<Node> nodes_;
    std::vector<unsigned char> bytes_;  // that lead to each node
    std::array<int32_t, 256> roots_{};  // children of the root by their bytes
};

}  // namespace uwaga
