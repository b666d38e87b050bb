#include "search/running_batch.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace uwaga {

namespace {

// Source tokens that are encoded between two steps: while sentences run, and where none does.
constexpr int64_t beside_others = 128, alone = 1024;

}  // namespace

void RunningBatch::serve() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (serving_) throw std::invalid_argument("the batch is being served by another thread");
        serving_ = true;
    }
    auto error = std::make_exception_ptr(std::runtime_error("the batch was closed"));
    try {
        decode();
    } catch (...) {
        error = std::current_exception();
    }
    for (const std::shared_ptr<Lane>& lane : active_) fail(*lane, error);
    active_.clear();
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (const Handed& one : handed_) {
        one.ticket->news.error = error;
        one.ticket->changed.notify_all();
    }
    handed_.clear();
    left_.clear();
    serving_ = false;
}

// Until it is closed.
void RunningBatch::decode() {
    for (;;) {
        std::vector<Handed> sentences;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            wake_.wait(lock, [&] { return closed_ || !handed_.empty() || !active_.empty(); });
            if (closed_) return;
            sentences = entering();
        }
        if (!sentences.empty()) admit(std::move(sentences));
        let_go();
        for (const std::shared_ptr<Lane>& lane : active_) advance(*lane);
        active_.erase(std::remove_if(active_.begin(), active_.end(), [](const auto& lane) { return lane->seats.empty(); }), active_.end());
    }
}

void RunningBatch::close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    wake_.notify_all();
}

void RunningBatch::hand(const TicketPtr& ticket, std::vector<std::vector<int32_t>> sources, std::vector<Entry> entries) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) throw std::runtime_error("the batch was closed");
    if (ticket->gone) return;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        entries[i].streams = ticket->streams;
        handed_.push_back({ticket, ticket->handed++, std::move(sources[i]), std::move(entries[i])});
    }
    wake_.notify_one();
}

News RunningBatch::take(const TicketPtr& ticket, double seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto told = [&] { return ticket->gone || closed_ || ticket->news.error || !ticket->news.done.empty() || !ticket->news.decided.empty(); };
    ticket->changed.wait_for(lock, std::chrono::duration<double>(seconds), told);
    return std::exchange(ticket->news, {});
}

void RunningBatch::leave(const TicketPtr& ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ticket->gone) return;
    ticket->gone = true;
    ticket->changed.notify_all();
    handed_.erase(std::remove_if(handed_.begin(), handed_.end(), [&](const Handed& one) { return one.ticket == ticket; }), handed_.end());
    left_.push_back(ticket);
}

Counters RunningBatch::counters() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counters_;
}

// The next that wait; the mutex is held.
std::vector<Handed> RunningBatch::entering() {
    const int64_t most = active_.empty() ? alone : beside_others;
    std::vector<Handed> made;
    for (int64_t tokens = 0; !handed_.empty(); handed_.pop_front()) {
        tokens += static_cast<int64_t>(handed_.front().source.size());
        if (!made.empty() && tokens > most) break;
        made.push_back(std::move(handed_.front()));
    }
    return made;
}

// Sentences of tickets that have left make no further step.
void RunningBatch::let_go() {
    std::vector<TicketPtr> left;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        left.swap(left_);
    }
    for (const TicketPtr& ticket : left) {
        Lane& lane = *ticket->lane;
        if (lane.search) lane.search->leave([&](int64_t number) { return lane.seats.at(number).ticket == ticket; });
        for (auto seat = lane.seats.begin(); seat != lane.seats.end();) seat = seat->second.ticket == ticket ? lane.seats.erase(seat) : std::next(seat);
    }
}

Memory RunningBatch::encoded(const std::vector<std::vector<int32_t>>& sources) const {
    Memory memory = model_->has_source() ? encode(model_, sources) : read_prompts(model_, sources);
    if (shortlist_) restrict_to(*shortlist_, sources, memory);
    return memory;
}

// Encode sentences together, or each alone where that fails: one that cannot be encoded is nobody else's matter.
void RunningBatch::admit(std::vector<Handed> entering) {
    std::vector<std::vector<int32_t>> sources;
    for (const Handed& one : entering) sources.push_back(one.source);
    Memory memory;
    try {
        memory = encoded(sources);
    } catch (...) {
        if (entering.size() == 1) return fail(entering[0].ticket, std::current_exception());
        for (Handed& one : entering) {
            std::vector<Handed> alone_;
            alone_.push_back(std::move(one));
            admit(std::move(alone_));
        }
        return;
    }
    enter(std::move(entering), memory);
}

// Give sentences that were encoded to their lanes.
void RunningBatch::enter(std::vector<Handed> sentences, const Memory& memory) {
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
        try {
            if (!lane->search) lane->search.emplace(model_, lane->rules);
            int64_t number = lane->search->enter(own, std::move(entries));
            for (const std::size_t i : which) lane->seats.emplace(number++, Lane::Seat{sentences[i].ticket, sentences[i].number});
        } catch (...) {  // the search has lost its state
            for (const std::size_t i : which) fail(sentences[i].ticket, std::current_exception());
            fail(*lane, std::current_exception());
        }
        if (std::find(active_.begin(), active_.end(), lane) == active_.end()) active_.push_back(lane);
    }
}

void RunningBatch::advance(Lane& lane) {
    if (lane.seats.empty()) return;
    const int64_t rows = static_cast<int64_t>(lane.search->running().size()) * lane.rules.beams;
    try {
        lane.search->step();
    } catch (const NotNumbers& error) {
        std::vector<TicketPtr> wrong;
        for (const int64_t number : error.sentences) wrong.push_back(lane.seats.at(number).ticket);
        for (const TicketPtr& ticket : wrong) fail(ticket, std::current_exception());
        let_go();
        return;
    } catch (...) {
        return fail(lane, std::current_exception());
    }
    deliver(lane, lane.search->take_done(), lane.search->take_decided(), rows);
}

void RunningBatch::deliver(Lane& lane, std::vector<Done> done, const std::vector<Decided>& decided, int64_t rows) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.steps;
    counters_.rows += rows;
    counters_.sentences += static_cast<int64_t>(done.size());
    for (const Decided& one : decided) {
        const Lane::Seat& seat = lane.seats.at(one.sentence);
        seat.ticket->news.decided.push_back({seat.number, one.token, one.log_prob});
        seat.ticket->changed.notify_all();
    }
    for (Done& one : done) {
        const auto at = lane.seats.find(one.sentence);
        Ticket& ticket = *at->second.ticket;
        ticket.news.done.push_back({at->second.number, std::move(one.found)});
        ticket.changed.notify_all();
        lane.seats.erase(at);
    }
}

// A ticket's sentences have failed: all of them go.
void RunningBatch::fail(const TicketPtr& ticket, const std::exception_ptr& error) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!ticket->gone) ticket->news.error = error;
        ticket->changed.notify_all();
    }
    leave(ticket);
}

// A search has failed, nobody knows through which of its sentences.
void RunningBatch::fail(Lane& lane, const std::exception_ptr& error) {
    for (const auto& [number, seat] : lane.seats) fail(seat.ticket, error);
    lane.seats.clear();
    lane.search.reset();
}

}  // namespace uwaga
