#include "search/running_batch.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace uwaga {

namespace {

constexpr const char* closed_message = "the batch was closed";
// Source tokens encoded between two steps: while other sentences run, and while none do.
constexpr int64_t tokens_while_running = 128, tokens_when_idle = 1024;
constexpr std::size_t max_idle = 4;  // searches that a thread keeps for the next sentence with the same rules
constexpr int64_t min_rows = 8;  // per thread, in models wide enough that threads decode few rows together

}  // namespace

void RunningBatch::serve() {
    std::vector<std::thread> helpers;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!servers_.empty()) throw std::invalid_argument("the batch is being served by another thread");
        for (int64_t i = 0; i < network_->workers.threads(); ++i)
            servers_.push_back(std::make_unique<Server>());
    }
    try {
        for (std::size_t i = 1; i < servers_.size(); ++i)
            helpers.emplace_back([this, server = servers_[i].get()] { run(*server); });
    } catch (const std::system_error&) {
        // The system allows no more threads: continue with those created so far.
        const std::lock_guard<std::mutex> lock(mutex_);
        servers_.resize(helpers.size() + 1);
    }
    run(*servers_[0]);
    for (std::thread& helper : helpers) helper.join();
    const std::lock_guard<std::mutex> lock(mutex_);
    servers_.clear();
}

// Decode until the batch is closed; an error here closes it.
void RunningBatch::run(Server& server) {
    auto error = std::make_exception_ptr(std::runtime_error(closed_message));
    try {
        decode(server);
    } catch (...) {
        error = std::current_exception();
    }
    close();
    for (const auto& lane_search : server.searches) fail(*lane_search, error);
    server.searches.clear();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const QueuedSentence& sentence : queue_) {
        sentence.ticket->results.error = error;
        sentence.ticket->changed.notify_all();
    }
    queue_.clear();
}

void RunningBatch::decode(Server& server) {
    std::unique_ptr<Workers::ActiveThread> active;
    for (;;) {
        std::vector<QueuedSentence> sentences;
        if (server.searches.empty()) active.reset();
        {
            std::unique_lock<std::mutex> lock(mutex_);
            rows_ -= server.rows;
            server.rows = 0;
            for (const auto& lane_search : server.searches)
                server.rows += static_cast<int64_t>(lane_search->seats.size()) *
                               lane_search->lane->rules.beams;
            rows_ += server.rows;
            if (server.searches.empty()) server.left_tickets.clear();
            server.sleeps = true;
            server.wake.wait(lock, [&] { return closed_ || !server.searches.empty() || can_take(server); });
            server.sleeps = false;
            if (closed_) return;
            sentences = entering(server);
        }
        if (!active) active = std::make_unique<Workers::ActiveThread>(network_->workers);
        if (!sentences.empty()) admit(server, std::move(sentences));
        remove_left_tickets(server);
        for (const auto& lane_search : server.searches) advance(server, *lane_search);
        store_idle(server);
    }
}

// Keep a few of the searches without sentences, to reuse their buffers.
void RunningBatch::store_idle(Server& server) {
    const auto empty = std::stable_partition(server.searches.begin(), server.searches.end(),
                                             [](const auto& lane_search) {
                                                 return !lane_search->seats.empty();
                                             });
    server.idle.insert(server.idle.end(), std::make_move_iterator(empty),
                       std::make_move_iterator(server.searches.end()));
    server.searches.erase(empty, server.searches.end());
    if (server.idle.size() > max_idle) server.idle.erase(server.idle.begin(), server.idle.end() - max_idle);
}

// How many threads the current rows are worth. Needs the mutex, as do can_take and wake_one.
int64_t RunningBatch::useful_servers() const {
    const int64_t min_server_rows = network_->width < network_->shared_width ? 1 : min_rows;
    return std::clamp<int64_t>(rows_ / min_server_rows, 1, static_cast<int64_t>(servers_.size()));
}

// Whether this thread takes the next sentence: it has less than its share of all rows.
bool RunningBatch::can_take(const Server& server) const {
    if (queue_.empty()) return false;
    const int64_t count = useful_servers();
    if (server.rows) return server.rows * count < rows_;
    const auto active_servers = std::count_if(servers_.begin(), servers_.end(),
                                              [](const auto& other) { return other->rows > 0; });
    return active_servers < count;
}

// Wake a sleeping thread that may take a waiting sentence.
void RunningBatch::wake_server() {
    for (const auto& server : servers_) {
        if (!server->sleeps || !can_take(*server)) continue;
        server->wake.notify_one();
        return;
    }
}

void RunningBatch::close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (const auto& server : servers_) server->wake.notify_all();
}

void RunningBatch::submit(const TicketPtr& ticket, std::vector<std::vector<int32_t>> sources,
                          std::vector<Entry> entries) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) throw std::runtime_error(closed_message);
    if (ticket->left) return;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        entries[i].streams = ticket->streams;
        rows_ += ticket->lane->rules.beams;
        queue_.push_back({ticket, ticket->submitted++, std::move(sources[i]), std::move(entries[i])});
    }
    wake_server();
}

TicketResults RunningBatch::take(const TicketPtr& ticket, double seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto ready = [&] {
        return ticket->left || closed_ || ticket->results.error || !ticket->results.finished.empty() ||
               !ticket->results.decided.empty();
    };
    ticket->changed.wait_for(lock, std::chrono::duration<double>(seconds), ready);
    const bool empty = !ticket->results.error && ticket->results.finished.empty() &&
                       ticket->results.decided.empty();
    if (empty && closed_ && !ticket->left) throw std::runtime_error(closed_message);
    return std::exchange(ticket->results, {});
}

void RunningBatch::leave(const TicketPtr& ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ticket->left) return;
    ticket->left = true;
    ticket->changed.notify_all();
    const auto waiting = std::remove_if(queue_.begin(), queue_.end(), [&](const QueuedSentence& sentence) {
        return sentence.ticket == ticket;
    });
    rows_ -= (queue_.end() - waiting) * ticket->lane->rules.beams;
    queue_.erase(waiting, queue_.end());
    for (const auto& server : servers_) {
        if (server->rows) server->left_tickets.push_back(ticket);
    }
}

Counters RunningBatch::counters() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counters_;
}

// Remove the next waiting sentences from the queue, up to this thread's share. Needs the mutex.
std::vector<QueuedSentence> RunningBatch::entering(Server& server) {
    const int64_t limit = server.searches.empty() ? tokens_when_idle : tokens_while_running;
    std::vector<QueuedSentence> sentences;
    for (int64_t tokens = 0; can_take(server); queue_.pop_front()) {
        tokens += static_cast<int64_t>(queue_.front().source.size());
        if (!sentences.empty() && tokens > limit) break;
        server.rows += queue_.front().ticket->lane->rules.beams;  // already counted in rows_
        sentences.push_back(std::move(queue_.front()));
    }
    wake_server();
    return sentences;
}

// Remove the sentences of tickets that have left.
void RunningBatch::remove_left_tickets(Server& server) {
    std::vector<TicketPtr> left_tickets;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        left_tickets.swap(server.left_tickets);
    }
    for (const TicketPtr& ticket : left_tickets) {
        for (const auto& lane_search : server.searches) {
            if (lane_search->lane != ticket->lane) continue;
            if (lane_search->search)
                lane_search->search->leave([&](int64_t number) {
                    return lane_search->seats.at(number).ticket == ticket;
                });
            for (auto seat = lane_search->seats.begin(); seat != lane_search->seats.end();)
                seat = seat->second.ticket == ticket ? lane_search->seats.erase(seat) : std::next(seat);
        }
    }
}

Memory RunningBatch::encoded(const std::vector<std::vector<int32_t>>& sources) const {
    Memory memory = network_->encode(sources);
    if (shortlist_) restrict_to(*shortlist_, sources, memory);
    return memory;
}

// Encode sentences together or, if that fails, one by one, so that a bad sentence does not fail the others.
void RunningBatch::admit(Server& server, std::vector<QueuedSentence> entering) {
    std::vector<std::vector<int32_t>> sources;
    for (const QueuedSentence& sentence : entering) sources.push_back(sentence.source);
    Memory memory;
    try {
        memory = encoded(sources);
    } catch (...) {
        if (entering.size() == 1) return fail(entering[0].ticket, std::current_exception());
        for (QueuedSentence& sentence : entering) {
            std::vector<QueuedSentence> single;
            single.push_back(std::move(sentence));
            admit(server, std::move(single));
        }
        return;
    }
    for (std::size_t i = 0; i < entering.size(); ++i)
        attach(*network_, entering[i].entry.datastore, memory.sentences[i]);
    enter(server, std::move(entering), memory);
}

RunningBatch::LaneSearch& RunningBatch::search_of(Server& server, const std::shared_ptr<Lane>& lane) {
    const auto running = std::find_if(server.searches.begin(), server.searches.end(),
                                      [&](const auto& search) { return search->lane == lane; });
    if (running != server.searches.end()) return **running;
    const auto idle = std::find_if(server.idle.begin(), server.idle.end(),
                                   [&](const auto& search) { return search->lane == lane; });
    if (idle == server.idle.end()) {
        server.searches.push_back(std::make_unique<LaneSearch>(lane));
    } else {
        server.searches.push_back(std::move(*idle));
        server.idle.erase(idle);
    }
    return *server.searches.back();
}

// Hand encoded sentences to the searches of their lanes.
void RunningBatch::enter(Server& server, std::vector<QueuedSentence> sentences, const Memory& memory) {
    std::vector<bool> is_handled(sentences.size());
    for (std::size_t first = 0; first < sentences.size(); ++first) {
        if (is_handled[first]) continue;
        const std::shared_ptr<Lane> lane = sentences[first].ticket->lane;
        Memory lane_memory{network_, {}};
        std::vector<Entry> entries;
        std::vector<std::size_t> indices;
        for (std::size_t i = first; i < sentences.size(); ++i) {
            if (sentences[i].ticket->lane != lane) continue;
            is_handled[i] = true;
            indices.push_back(i);
            lane_memory.sentences.push_back(memory.sentences[i]);
            entries.push_back(std::move(sentences[i].entry));
        }
        LaneSearch& lane_search = search_of(server, lane);
        try {
            if (!lane_search.search) lane_search.search.emplace(network_, lane->rules);
            int64_t number = lane_search.search->enter(lane_memory, std::move(entries));
            for (const std::size_t i : indices)
                lane_search.seats.emplace(number++, Seat{sentences[i].ticket, sentences[i].number});
        } catch (...) {  // the search has lost its state
            for (const std::size_t i : indices) fail(sentences[i].ticket, std::current_exception());
            fail(lane_search, std::current_exception());
        }
    }
}

void RunningBatch::advance(Server& server, LaneSearch& lane_search) {
    if (lane_search.seats.empty()) return;
    const int64_t rows = static_cast<int64_t>(lane_search.search->running().size()) *
                         lane_search.lane->rules.beams;
    try {
        lane_search.search->step();
    } catch (const NotNumbers& error) {
        return fail(server, lane_search, error.sentences, std::current_exception());
    } catch (...) {
        return fail(server, lane_search, lane_search.search->failing_sentences(), std::current_exception());
    }
    deliver(lane_search, lane_search.search->take_finished(), lane_search.search->take_decided(), rows);
}

void RunningBatch::deliver(LaneSearch& lane_search, std::vector<FinishedSentence> finished,
                           const std::vector<DecidedToken>& decided, int64_t rows) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.steps;
    counters_.rows += rows;
    counters_.sentences += static_cast<int64_t>(finished.size());
    for (const DecidedToken& token : decided) {
        const Seat& seat = lane_search.seats.at(token.sentence);
        seat.ticket->results.decided.push_back({seat.number, token.token, token.log_prob});
        seat.ticket->changed.notify_all();
    }
    for (FinishedSentence& sentence : finished) {
        const auto seat = lane_search.seats.find(sentence.sentence);
        Ticket& ticket = *seat->second.ticket;
        ticket.results.finished.push_back({seat->second.number, std::move(sentence.hypotheses)});
        ticket.changed.notify_all();
        lane_search.seats.erase(seat);
    }
}

// Fail a ticket and remove all its sentences.
void RunningBatch::fail(const TicketPtr& ticket, const std::exception_ptr& error) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!ticket->left) ticket->results.error = error;
        ticket->changed.notify_all();
    }
    leave(ticket);
}

// Remove the sentences that made a step fail; the next step runs without them. If none is known, the search
// fails.
void RunningBatch::fail(Server& server, LaneSearch& lane_search, const std::vector<int64_t>& sentences,
                        const std::exception_ptr& error) {
    if (sentences.empty()) return fail(lane_search, error);
    std::vector<TicketPtr> failed;
    for (const int64_t number : sentences) failed.push_back(lane_search.seats.at(number).ticket);
    for (const TicketPtr& ticket : failed) fail(ticket, error);
    remove_left_tickets(server);
}

// Fail a search: remove all its sentences; later ones get a new search.
void RunningBatch::fail(LaneSearch& lane_search, const std::exception_ptr& error) {
    for (const auto& [number, seat] : lane_search.seats) fail(seat.ticket, error);
    lane_search.seats.clear();
    lane_search.search.reset();
}

}  // namespace uwaga
