// Sentences of any number of searches decoded side by side, in a thread that never waits for Python.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "output/shortlist.h"
#include "search/beam_search.h"

namespace uwaga {

// What has happened to the sentences of a ticket: by the order in which they were handed in.
struct News {
    std::vector<Done> done;
    std::vector<Decided> decided;
    std::exception_ptr error;
};

struct Ticket;

// Sentences that are searched by the same rules.
struct Lane {
    struct Seat {
        std::shared_ptr<Ticket> ticket;
        int64_t number;  // among those of the ticket
    };

    explicit Lane(BeamRules r) : rules(std::move(r)) {}

    const BeamRules rules;
    std::optional<BeamSearch> search;           // this and what follows is for the thread that serves
    std::unordered_map<int64_t, Seat> seats;    // by number in the search
};

// Who has sentences searched. What follows the lane belongs to whoever holds the batch's mutex.
struct Ticket {
    Ticket(std::shared_ptr<Lane> l, bool s) : lane(std::move(l)), streams(s) {}

    const std::shared_ptr<Lane> lane;
    const bool streams;
    int64_t handed = 0;
    bool gone = false;
    News news;
    std::condition_variable changed;
};
using TicketPtr = std::shared_ptr<Ticket>;

// A sentence to decode.
struct Handed {
    TicketPtr ticket;
    int64_t number;
    std::vector<int32_t> source;
    Entry entry;
};

// How much has been decoded.
struct Counters {
    int64_t steps = 0, rows = 0, sentences = 0;  // steps of a lane; their rows together; sentences that were done
};

// Sentences enter in the order in which they are handed in, a few at a time, so that those that run are not held up.
class RunningBatch {
  public:
    RunningBatch(ModelPtr model, const Shortlist* shortlist) : model_(std::move(model)), shortlist_(shortlist) {}
    RunningBatch(const RunningBatch&) = delete;
    RunningBatch& operator=(const RunningBatch&) = delete;

    const Model& model() const { return *model_; }
    // Decode until close(); one thread. Whoever waits then is told that the batch was closed.
    void serve();
    void close();

    void hand(const TicketPtr& ticket, std::vector<std::vector<int32_t>> sources, std::vector<Entry> entries);
    // What is new, waited for if it must be, for so many seconds.
    News take(const TicketPtr& ticket, double seconds);
    // Its sentences go, at once if they wait, before the next step if they run.
    void leave(const TicketPtr& ticket);
    Counters counters();

  private:
    void decode();
    std::vector<Handed> entering();
    void let_go();
    void admit(std::vector<Handed> entering);
    Memory encoded(const std::vector<std::vector<int32_t>>& sources) const;
    void enter(std::vector<Handed> sentences, const Memory& memory);
    void advance(Lane& lane);
    void deliver(Lane& lane, std::vector<Done> done, const std::vector<Decided>& decided, int64_t rows);
    void fail(const TicketPtr& ticket, const std::exception_ptr& error);
    void fail(Lane& lane, const std::exception_ptr& error);

    ModelPtr model_;
    const Shortlist* shortlist_;
    std::vector<std::shared_ptr<Lane>> active_;  // those with sentences: for the thread that serves

    std::mutex mutex_;
    std::condition_variable wake_;
    bool closed_ = false, serving_ = false;
    std::deque<Handed> handed_;
    std::vector<TicketPtr> left_;  // whose sentences may still run
    Counters counters_;
};

}  // namespace uwaga
