// Continuous batching: sentences of many callers decoded side by side, in threads that never wait for Python.
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

// New results of a ticket; sentences are numbered in the order in which they were submitted.
struct TicketResults {
    std::vector<FinishedSentence> finished;
    std::vector<DecidedToken> decided;
    std::exception_ptr error;
};

struct Ticket;

// Sentences with the same search rules, which can share steps.
struct Lane {
    explicit Lane(BeamRules r) : rules(std::move(r)) {}
    const BeamRules rules;
};

// A caller of the batch. Members after `streams` are guarded by the batch's mutex.
struct Ticket {
    Ticket(std::shared_ptr<Lane> lane_rules, bool s) : lane(std::move(lane_rules)), streams(s) {}

    const std::shared_ptr<Lane> lane;
    const bool streams;
    int64_t submitted = 0;
    bool left = false;
    TicketResults results;
    std::condition_variable changed;
};
using TicketPtr = std::shared_ptr<Ticket>;

// A sentence waiting to be decoded.
struct QueuedSentence {
    TicketPtr ticket;
    int64_t number;
    std::vector<int32_t> source;
    Entry entry;
};

// Totals of the work.
struct Counters {
    int64_t steps = 0, rows = 0, sentences = 0;  // steps of lanes; rows of those steps; finished sentences
};

// Sentences enter in the order in which they are submitted, a few at a time, so as not to delay the running
// ones.
//
// Each of the model's threads decodes its own sentences and waits for no other: on a busy machine, a step
// shared by two threads waits for the one that is preempted. New sentences go to the thread with the fewest.
// A thread that is the only one at work uses the others as helpers, like any other call of the model.
class RunningBatch {
  public:
    RunningBatch(NetworkPtr network, const Shortlist* shortlist)
        : network_(std::move(network)), shortlist_(shortlist) {}
    RunningBatch(const RunningBatch&) = delete;
    RunningBatch& operator=(const RunningBatch&) = delete;

    const Network& network() const { return *network_; }
    // Decode until close(), in one call and with all of the model's threads. Callers that are still waiting
    // then get the error that the batch was closed.
    void serve();
    void close();

    void submit(const TicketPtr& ticket, std::vector<std::vector<int32_t>> sources,
                std::vector<Entry> entries);
    // Return new results, waiting for up to `seconds`. Throws if there are none and the batch was closed.
    TicketResults take(const TicketPtr& ticket, double seconds);
    // Remove the ticket's sentences: immediately if they wait, before the next step if they run.
    void leave(const TicketPtr& ticket);
    Counters counters();

  private:
    // The sentences of one lane in one thread.
    struct Seat {
        TicketPtr ticket;
        int64_t number;  // index among the ticket's sentences
    };
    struct LaneSearch {
        explicit LaneSearch(std::shared_ptr<Lane> l) : lane(std::move(l)) {}

        const std::shared_ptr<Lane> lane;
        std::optional<BeamSearch> search;
        std::unordered_map<int64_t, Seat> seats;  // key: sentence number in the search
    };
    // A decoding thread. Members after the searches are guarded by the mutex.
    struct Server {
        std::vector<std::unique_ptr<LaneSearch>> searches;  // those with sentences
        std::vector<std::unique_ptr<LaneSearch>> idle;  // a few without sentences, kept for later sentences
                                                        // with the same rules; latest last
        int64_t rows = 0;                               // of its sentences and of those about to enter
        bool sleeps = false;
        std::vector<TicketPtr> left_tickets;  // tickets that left while their sentences may still run
        std::condition_variable wake;
    };

    void run(Server& server);
    void decode(Server& server);
    void wake_server();
    bool can_take(const Server& server) const;
    int64_t useful_servers() const;
    std::vector<QueuedSentence> entering(Server& server);
    void remove_left_tickets(Server& server);
    void admit(Server& server, std::vector<QueuedSentence> entering);
    Memory encoded(const std::vector<std::vector<int32_t>>& sources) const;
    static LaneSearch& search_of(Server& server, const std::shared_ptr<Lane>& lane);
    static void store_idle(Server& server);
    void enter(Server& server, std::vector<QueuedSentence> sentences, const Memory& memory);
    void advance(Server& server, LaneSearch& lane_search);
    void deliver(LaneSearch& lane_search, std::vector<FinishedSentence> finished,
                 const std::vector<DecidedToken>& decided, int64_t rows);
    void fail(const TicketPtr& ticket, const std::exception_ptr& error);
    void fail(Server& server, LaneSearch& lane_search, const std::vector<int64_t>& sentences,
              const std::exception_ptr& error);
    void fail(LaneSearch& lane_search, const std::exception_ptr& error);

    NetworkPtr network_;
    const Shortlist* shortlist_;

    std::mutex mutex_;
    bool closed_ = false;
    std::vector<std::unique_ptr<Server>> servers_;  // while serve() runs
    std::deque<QueuedSentence> queue_;
    int64_t rows_ = 0;  // of all servers and of waiting sentences
    Counters counters_;
};

}  // namespace uwaga
