// Scratch memory of one thread, reused from call to call.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/buffer.h"
#include "kernels/kernels.h"

namespace uwaga {

struct Workspace {
    Buffer<float> x, normed, projected, context, hidden, gate, features;  // (rows, stride)
    Buffer<float> angles;         // (rows, rotary positions, head width)
    Buffer<float> weights, bias;  // (heads, length); larger in the encoder
    Buffer<uint8_t> quantised;
    Buffer<float> scales;
    Buffer<float> spread;  // (2, inputs)
    Buffer<int64_t> offsets;
    Buffer<int32_t> positions, tokens;
    Buffer<OutputRow> outputs;
    Buffer<Candidate> candidates;
    Buffer<float> logits, listed;
    Buffer<int32_t> order;
    Buffer<double> cumulative;
};

class WorkspacePool {
  public:
    class Loan {
      public:
        explicit Loan(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
        ~Loan() { pool_.release(std::move(workspace_)); }
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;
        Workspace& operator*() { return *workspace_; }

      private:
        WorkspacePool& pool_;
        std::unique_ptr<Workspace> workspace_;
    };

  private:
    std::unique_ptr<Workspace> take() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (free_.empty()) return std::make_unique<Workspace>();
        std::unique_ptr<Workspace> workspace = std::move(free_.back());
        free_.pop_back();
        return workspace;
    }
    void release(std::unique_ptr<Workspace> workspace) {
        const std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(std::move(workspace));
    }
    std::mutex mutex_;
    std::vector<std::unique_ptr<Workspace>> free_;
};

}  // namespace uwaga
