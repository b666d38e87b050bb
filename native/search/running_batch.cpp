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
constexpr int64_t beside_others = 128, alone = 1024;
constexpr std::size_t most_idle = 4;  // searches that a thread keeps for the next sentence with the same rules
constexpr int64_t least_rows = 8;  // per thread, in models wide enough that threads decode few rows together

}  // namespace

void RunningBatch::serve() {
    std::vector<std::thread> helpers;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!servers_.empty()) throw std::invalid_argument("the batch is being served by another thread");
        for (int64_t i = 0; i < model_->workers.threads(); ++i) servers_.push_back(std::make_unique<Server>());
    }
    try {
        for (std::size_t i = 1; i < servers_.size(); ++i) helpers.emplace_back([this, server = servers_[i].get()] { run(*server); });
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
    for (const auto& own : server.searches) fail(*own, error);
    server.searches.clear();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Handed& one : handed_) {
        one.ticket->news.error = error;
        one.ticket->changed.notify_all();
    }
    handed_.clear();
}

void RunningBatch::decode(Server& server) {
    std::unique_ptr<Workers::AtWork> at_work;
    for (;;) {
        std::vector<Handed> sentences;
        if (server.searches.empty()) at_work.reset();
        {
            std::unique_lock<std::mutex> lock(mutex_);
            rows_ -= server.rows;
            server.rows = 0;
            for (const auto& own : server.searches) server.rows += static_cast<int64_t>(own->seats.size()) * own->lane->rules.beams;
            rows_ += server.rows;
            if (server.searches.empty()) server.left.clear();
            server.sleeps = true;
            server.wake.wait(lock, [&] { return closed_ || !server.searches.empty() || may_take(server); });
            server.sleeps = false;
            if (closed_) return;
            sentences = entering(server);
        }
        if (!at_work) at_work = std::make_unique<Workers::AtWork>(model_->workers);
        if (!sentences.empty()) admit(server, std::move(sentences));
        let_go(server);
        for (const auto& own : server.searches) advance(server, *own);
        rest(server);
    }
}

// Keep a few of the searches without sentences, to reuse their buffers.
void RunningBatch::rest(Server& server) {
    const auto empty = std::stable_partition(server.searches.begin(), server.searches.end(), [](const auto& own) { return !own->seats.empty(); });
    server.idle.insert(server.idle.end(), std::make_move_iterator(empty), std::make_move_iterator(server.searches.end()));
    server.searches.erase(empty, server.searches.end());
    if (server.idle.size() > most_idle) server.idle.erase(server.idle.begin(), server.idle.end() - most_idle);
}

// How many threads the current rows are worth. Needs the mutex, as do may_take and wake_one.
int64_t RunningBatch::servers_wanted() const {
    const int64_t least = model_->shape.width < model_->shape.shared_width ? 1 : least_rows;
    return std::clamp<int64_t>(rows_ / least, 1, static_cast<int64_t>(servers_.size()));
}

// Whether this thread takes the next sentence: it has less than its share of all rows.
bool RunningBatch::may_take(const Server& server) const {
    if (handed_.empty()) return false;
    const int64_t wanted = servers_wanted();
    if (server.rows) return server.rows * wanted < rows_;
    const auto at_work = std::count_if(servers_.begin(), servers_.end(), [](const auto& one) { return one->rows > 0; });
    return at_work < wanted;
}

// Wake a sleeping thread that may take a waiting sentence.
void RunningBatch::wake_one() {
    for (const auto& server : servers_) {
        if (!server->sleeps || !may_take(*server)) continue;
        server->wake.notify_one();
        return;
    }
}

void RunningBatch::close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (const auto& server : servers_) server->wake.notify_all();
}

void RunningBatch::hand(const TicketPtr& ticket, std::vector<std::vector<int32_t>> sources, std::vector<Entry> entries) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) throw std::runtime_error(closed_message);
    if (ticket->gone) return;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        entries[i].streams = ticket->streams;
        rows_ += ticket->lane->rules.beams;
        handed_.push_back({ticket, ticket->handed++, std::move(sources[i]), std::move(entries[i])});
    }
    wake_one();
}

News RunningBatch::take(const TicketPtr& ticket, double seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto told = [&] { return ticket->gone || closed_ || ticket->news.error || !ticket->news.done.empty() || !ticket->news.decided.empty(); };
    ticket->changed.wait_for(lock, std::chrono::duration<double>(seconds), told);
    const bool none = !ticket->news.error && ticket->news.done.empty() && ticket->news.decided.empty();
    if (none && closed_ && !ticket->gone) throw std::runtime_error(closed_message);
    return std::exchange(ticket->news, {});
}

void RunningBatch::leave(const TicketPtr& ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ticket->gone) return;
    ticket->gone = true;
    ticket->changed.notify_all();
    const auto waiting = std::remove_if(handed_.begin(), handed_.end(), [&](const Handed& one) { return one.ticket == ticket; });
    rows_ -= (handed_.end() - waiting) * ticket->lane->rules.beams;
    handed_.erase(waiting, handed_.end());
    for (const auto& server : servers_) {
        if (server->rows) server->left.push_back(ticket);
    }
}

Counters RunningBatch::counters() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counters_;
}

// Remove the next waiting sentences from the queue, up to this thread's share. Needs the mutex.
std::vector<Handed> RunningBatch::entering(Server& server) {
    const int64_t most = server.searches.empty() ? alone : beside_others;
    std::vector<Handed> made;
    for (int64_t tokens = 0; may_take(server); handed_.pop_front()) {
        tokens += static_cast<int64_t>(handed_.front().source.size());
        if (!made.empty() && tokens > most) break;
        server.rows += handed_.front().ticket->lane->rules.beams;  // already counted in rows_
        made.push_back(std::move(handed_.front()));
    }
    wake_one();
    return made;
}

// Remove the sentences of tickets that have left.
void RunningBatch::let_go(Server& server) {
    std::vector<TicketPtr> left;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        left.swap(server.left);
    }
    for (const TicketPtr& ticket : left) {
        for (const auto& own : server.searches) {
            if (own->lane != ticket->lane) continue;
            if (own->search) own->search->leave([&](int64_t number) { return own->seats.at(number).ticket == ticket; });
            for (auto seat = own->seats.begin(); seat != own->seats.end();) seat = seat->second.ticket == ticket ? own->seats.erase(seat) : std::next(seat);
        }
    }
}

Memory RunningBatch::encoded(const std::vector<std::vector<int32_t>>& sources) const {
    Memory memory = model_->has_source() ? encode(model_, sources) : read_prompts(model_, sources);
    if (shortlist_) restrict_to(*shortlist_, sources, memory);
    return memory;
}

// Encode sentences together or, if that fails, one by one, so that a bad sentence does not fail the others.
void RunningBatch::admit(Server& server, std::vector<Handed> entering) {
    std::vector<std::vector<int32_t>> sources;
    for (const Handed& one : entering) sources.push_back(one.source);
    Memory memory;
    try {
        memory = encoded(sources);
    } catch (...) {
        if (entering.size() == 1) return fail(entering[0].ticket, std::current_exception());
        for (Handed& one : entering) {
            std::vector<Handed> by_itself;
            by_itself.push_back(std::move(one));
            admit(server, std::move(by_itself));
        }
        return;
    }
    enter(server, std::move(entering), memory);
}

RunningBatch::LaneSearch& RunningBatch::search_of(Server& server, const std::shared_ptr<Lane>& lane) {
    const auto at = std::find_if(server.searches.begin(), server.searches.end(), [&](const auto& one) { return one->lane == lane; });
    if (at != server.searches.end()) return **at;
    const auto kept = std::find_if(server.idle.begin(), server.idle.end(), [&](const auto& one) { return one->lane == lane; });
    if (kept == server.idle.end()) {
        server.searches.push_back(std::make_unique<LaneSearch>(lane));
    } else {
        server.searches.push_back(std::move(*kept));
        server.idle.erase(kept);
    }
    return *server.searches.back();
}

// Hand encoded sentences to the searches of their lanes.
void RunningBatch::enter(Server& server, std::vector<Handed> sentences, const Memory& memory) {
    std::vector<bool> seated(sentences.size());
    for (std::size_t first = 0; first < sentences.size(); ++first) {
        if (seated[first]) continue;
        const std::shared_ptr<Lane> lane = sentences[first].ticket->lane;
        Memory own{model_, {}};
        std::vector<Entry> entries;
        std::vector<std::size_t> which;
        for (std::size_t i = first; i < sentences.size(); ++i) {
            if (sentences[i].ticket->lane != lane) continue;
            seated[i] = true;
            which.push_back(i);
            if (model_->has_source()) own.sentences.push_back(memory.sentences[i]);
            else own.prompts.push_back(memory.prompts[i]);
            entries.push_back(std::move(sentences[i].entry));
        }
        LaneSearch& there = search_of(server, lane);
        try {
            if (!there.search) there.search.emplace(model_, lane->rules);
            int64_t number = there.search->enter(own, std::move(entries));
            for (const std::size_t i : which) there.seats.emplace(number++, Seat{sentences[i].ticket, sentences[i].number});
        } catch (...) {  // the search has lost its state
            for (const std::size_t i : which) fail(sentences[i].ticket, std::current_exception());
            fail(there, std::current_exception());
        }
    }
}

void RunningBatch::advance(Server& server, LaneSearch& own) {
    if (own.seats.empty()) return;
    const int64_t rows = static_cast<int64_t>(own.search->running().size()) * own.lane->rules.beams;
    try {
        own.search->step();
    } catch (const NotNumbers& error) {
        return fail(server, own, error.sentences, std::current_exception());
    } catch (...) {
        return fail(server, own, own.search->failing(), std::current_exception());
    }
    deliver(own, own.search->take_done(), own.search->take_decided(), rows);
}

void RunningBatch::deliver(LaneSearch& own, std::vector<Done> done, const std::vector<Decided>& decided, int64_t rows) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.steps;
    counters_.rows += rows;
    counters_.sentences += static_cast<int64_t>(done.size());
    for (const Decided& one : decided) {
        const Seat& seat = own.seats.at(one.sentence);
        seat.ticket->news.decided.push_back({seat.number, one.token, one.log_prob});
        seat.ticket->changed.notify_all();
    }
    for (Done& one : done) {
        const auto at = own.seats.find(one.sentence);
        Ticket& ticket = *at->second.ticket;
        ticket.news.done.push_back({at->second.number, std::move(one.found)});
        ticket.changed.notify_all();
        own.seats.erase(at);
    }
}

// Fail a ticket and remove all its sentences.
void RunningBatch::fail(const TicketPtr& ticket, const std::exception_ptr& error) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!ticket->gone) ticket->news.error = error;
        ticket->changed.notify_all();
    }
    leave(ticket);
}

// Remove the sentences that made a step fail; the next one runs without them. With none known, the search fails.
void RunningBatch::fail(Server& server, LaneSearch& own, const std::vector<int64_t>& sentences, const std::exception_ptr& error) {
    if (sentences.empty()) return fail(own, error);
    std::vector<TicketPtr> wrong;
    for (const int64_t number : sentences) wrong.push_back(own.seats.at(number).ticket);
    for (const TicketPtr& ticket : wrong) fail(ticket, error);
    let_go(server);
}

// Fail a search: remove all its sentences; later ones get a new search.
void RunningBatch::fail(LaneSearch& own, const std::exception_ptr& error) {
    for (const auto& [number, seat] : own.seats) fail(seat.ticket, error);
    own.seats.clear();
    own.search.reset();
}

}  // namespace uwaga
