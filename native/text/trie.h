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
            auto [key, last, depth] = spans[node];
            if (key < last && keys[key].first.size() == depth) nodes_[node].value = keys[key++].second;
            nodes_[node].first = static_cast<int32_t>(nodes_.size());
            while (key < last) {
                const char byte = keys[key].first[depth];
                const std::size_t start = key;
                while (key < last && keys[key].first[depth] == byte) ++key;
                spans.push_back({start, key, depth + 1});
                nodes_.push_back(Node{});
                bytes_.push_back(static_cast<unsigned char>(byte));
            }
            nodes_[node].last = static_cast<int32_t>(nodes_.size());
        }
        if (nodes_.empty()) return;
        roots_.fill(none);
        for (int32_t child = nodes_[0].first; child < nodes_[0].last; ++child)
            roots_[bytes_[static_cast<std::size_t>(child)]] = child;
    }

    // The node that a byte leads to, or none.
    int32_t child(int32_t node, char byte) const {
        const auto target = static_cast<unsigned char>(byte);
        if (node == 0) return roots_[target];
        const Node& parent = nodes_[static_cast<std::size_t>(node)];
        const auto first = bytes_.begin() + parent.first, last = bytes_.begin() + parent.last;
        const auto match = std::lower_bound(first, last, target);
        return match == last || *match != target ? none : static_cast<int32_t>(match - bytes_.begin());
    }
    // The value of the key that ends at a node, or none.
    int32_t value(int32_t node) const { return nodes_[static_cast<std::size_t>(node)].value; }
    bool empty() const { return nodes_.size() < 2; }

    // Bytes of the longest key at the start of a text, 0 if there is none.
    std::size_t longest_prefix(std::string_view text) const {
        std::size_t longest = 0;
        if (empty()) return longest;
        int32_t node = 0;
        for (std::size_t key = 0; key < text.size(); ++key) {
            node = child(node, text[key]);
            if (node == none) break;
            if (value(node) != none) longest = key + 1;
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
