// Sentences of any number of searches decoded side by side, in threads that never wait for Python.
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

// Sentences that are searched by the same rules may share their steps.
struct Lane {
    explicit Lane(BeamRules r) : rules(std::move(r)) {}
    const BeamRules rules;
};

// Who has sentences searched. What follows `streams` belongs to whoever holds the batch's mutex.
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
//
// Each of the model's threads decodes sentences of its own, and waits for no other: on a machine that has more to do, a
// step that two threads share waits for the one whose core is taken. Sentences go to the thread that has the fewest. A
// thread that is the only one at work has the others' help, as any other call of the model.
class RunningBatch {
  public:
    RunningBatch(ModelPtr model, const Shortlist* shortlist) : model_(std::move(model)), shortlist_(shortlist) {}
    RunningBatch(const RunningBatch&) = delete;
    RunningBatch& operator=(const RunningBatch&) = delete;

    const Model& model() const { return *model_; }
    // Decode until close(), in one call and in as many threads as the model has. Whoever waits then is told that the
    // batch was closed.
    void serve();
    void close();

    void hand(const TicketPtr& ticket, std::vector<std::vector<int32_t>> sources, std::vector<Entry> entries);
    // What is new, waited for if it must be, for so many seconds. Throws where nothing is and the batch was closed.
    News take(const TicketPtr& ticket, double seconds);
    // Its sentences go, at once if they wait, before the next step if they run.
    void leave(const TicketPtr& ticket);
    Counters counters();

  private:
    // A lane's sentences in one thread.
    struct Seat {
        TicketPtr ticket;
        int64_t number;  // among those of the ticket
    };
    struct LaneSearch {
        explicit LaneSearch(std::shared_ptr<Lane> l) : lane(std::move(l)) {}

        const std::shared_ptr<Lane> lane;
        std::optional<BeamSearch> search;
        std::unordered_map<int64_t, Seat> seats;  // by number in the search
    };
    // A thread that serves. What follows the searches belongs to whoever holds the mutex.
    struct Server {
        std::vector<std::unique_ptr<LaneSearch>> searches;  // those with sentences
        std::vector<std::unique_ptr<LaneSearch>> idle;      // a few without, of the rules that come again, the latest last
        int64_t rows = 0;                                   // of them, and of sentences on their way there
        bool sleeps = false;
        std::vector<TicketPtr> left;  // whose sentences may still run
        std::condition_variable wake;
    };

    void run(Server& server);
    void decode(Server& server);
    void wake_one();
    bool may_take(const Server& server) const;
    int64_t servers_wanted() const;
    std::vector<Handed> entering(Server& server);
    void let_go(Server& server);
    void admit(Server& server, std::vector<Handed> entering);
    Memory encoded(const std::vector<std::vector<int32_t>>& sources) const;
    static LaneSearch& search_of(Server& server, const std::shared_ptr<Lane>& lane);
    static void rest(Server& server);
    void enter(Server& server, std::vector<Handed> sentences, const Memory& memory);
    void advance(Server& server, LaneSearch& own);
    void deliver(LaneSearch& own, std::vector<Done> done, const std::vector<Decided>& decided, int64_t rows);
    void fail(const TicketPtr& ticket, const std::exception_ptr& error);
    void fail(Server& server, LaneSearch& own, const std::vector<int64_t>& sentences, const std::exception_ptr& error);
    void fail(LaneSearch& own, const std::exception_ptr& error);

    ModelPtr model_;
    const Shortlist* shortlist_;

    std::mutex mutex_;
    bool closed_ = false;
    std::vector<std::unique_ptr<Server>> servers_;  // while it is served
    std::deque<Handed> handed_;
    int64_t rows_ = 0;  // of all servers, and of what was handed in
    Counters counters_;
};

}  // namespace uwaga
