// Which blocks are resident: those of a launch begin in order, and when all resident ones only poll, more begin.
//
// A gang that polls for the result of a later one continues after that one has run, as if both were on the device at
// the same time; `most_fibers` limits the threads that exist at once. Gangs that are interleaved on one thread of the
// system have workers of their own.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "async.h"
#include "counters.h"
#include "crash.h"
#include "interrupt.h"
#include "report.h"
#include "shadow.h"
#include "state.h"

namespace tl_emu {

namespace {

// Workers that are not in use; their stacks and arenas are expensive to make.
struct Pool {
    std::mutex mutex;
    std::vector<std::unique_ptr<Worker>> idle;

    void give_back(std::unique_ptr<Worker> worker) {
        std::lock_guard<std::mutex> guard(mutex);
        if (idle.size() < std::thread::hardware_concurrency() + 1) idle.push_back(std::move(worker));
    }
};

Pool& pool() {
    static Pool all;
    return all;
}

}  // namespace

std::unique_ptr<Worker> idle_worker() {
    std::lock_guard<std::mutex> guard(pool().mutex);
    if (pool().idle.empty()) return std::make_unique<Worker>();
    std::unique_ptr<Worker> found = std::move(pool().idle.back());
    pool().idle.pop_back();
    return found;
}

namespace {

void add_bytes(uint64_t& h, const void* from, size_t bytes) {
    uint64_t lanes[4] = {h, 1, 2, 3}, words[4];
    const auto* p = static_cast<const char*>(from);
    for (; bytes > 0; bytes -= std::min(bytes, sizeof words), p += sizeof words) {
        words[0] = words[1] = words[2] = words[3] = 0;
        memcpy(words, p, std::min(bytes, sizeof words));
        for (int k = 0; k < 4; ++k) {
            lanes[k] = (lanes[k] ^ words[k]) * 0x9E3779B97F4A7C15ull;
            lanes[k] ^= lanes[k] >> 32;
        }
    }
    h = ((lanes[0] * 31 + lanes[1]) * 31 + lanes[2]) * 31 + lanes[3];
}

// After that many turns of threads that only poll, in which memory did not change, a gang takes too many steps.
constexpr uint64_t most_in_vain = 1ull << 27;

// The gangs of one thread of the system.
class Residents {
public:
    Residents(Launch& launch, std::unique_ptr<Worker> first, char* recovery) : launch_(launch), recovery_(recovery) {
        idle_.push_back(std::move(first));
    }
    ~Residents() {
        for (std::unique_ptr<Worker>& each : idle_) close(std::move(each));
    }
    void run();

private:
    struct Resident {
        std::unique_ptr<Worker> own;
        std::unique_ptr<Gang> gang;
    };
    bool begin();
    bool turn(Resident& resident);
    bool may_change();
    bool changed();
    void give_up();
    void end(Resident& resident);
    void close(std::unique_ptr<Worker> own);

    Launch& launch_;
    std::vector<Resident> all_;
    std::vector<std::unique_ptr<Worker>> idle_;
    char* recovery_;  // see crash.cpp
    bool busy_ = true, counted_ = false;
    uint64_t seen_ = 0, memory_ = 0;
};

// The next gang, if there is one and room for it.
bool Residents::begin() {
    const uint64_t number = __atomic_load_n(&launch_.next_gang, __ATOMIC_RELAXED);
    const uint64_t threads = (uint64_t)launch_.gang_blocks * launch_.threads * (all_.size() + 1) * launch_.workers;
    if (number >= launch_.gang_count || (!all_.empty() && threads > most_fibers)) return false;
    if (idle_.empty()) {
        std::unique_ptr<Worker> more = idle_worker();
        if (!prepare(*more, launch_)) return false;
        idle_.push_back(std::move(more));
    }
    const uint64_t mine = __atomic_fetch_add(&launch_.next_gang, 1, __ATOMIC_RELAXED);
    if (mine >= launch_.gang_count) return false;
    Resident made{std::move(idle_.back()), nullptr};
    idle_.pop_back();
    worker = made.own.get();
    worker->recovery = recovery_;
    made.gang = make_gang(*made.own, launch_, mine);
    all_.push_back(std::move(made));
    return busy_ = true;
}

// False: it has ended.
bool Residents::turn(Resident& resident) {
    worker = resident.own.get();
    if (!go_on(*resident.gang)) {
        end(resident);
        return false;
    }
    busy_ = busy_ || !(only_polls(*resident.gang) || resident.gang->idle_yields > most_in_vain);
    return true;
}

void Residents::end(Resident& resident) {
    worker = resident.own.get();
    end_gang(*resident.gang, launch_);
    resident.gang.reset();
    idle_.push_back(std::move(resident.own));
    busy_ = true;
}

void Residents::close(std::unique_ptr<Worker> own) {
    uint64_t& bytes = launch_.report->shared_bytes;
    const uint64_t used = own->static_high > 0 ? launch_.static_at + own->static_high : launch_.request.dynamic_shared;
    uint64_t seen = __atomic_load_n(&bytes, __ATOMIC_RELAXED);
    while (seen < used && !__atomic_compare_exchange_n(&bytes, &seen, used, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    __atomic_fetch_add(&launch_.report->accesses, own->accesses, __ATOMIC_RELAXED);
    own->recovery = nullptr;
    pool().give_back(std::move(own));
}

// Whether memory is not what it was when this was asked last.
bool Residents::changed() {
    uint64_t now = 0;
    const TlEmuLaunch& request = launch_.request;
    for (uint32_t k = 0; k < request.buffer_count; ++k) add_bytes(now, (const void*)request.buffers[k].base, request.buffers[k].bytes);
    for (const Resident& each : all_)
        for (uint32_t k = 0; k < each.gang->block_count; ++k)
            add_bytes(now, each.gang->blocks[k].arena, shared_bytes(launch_, each.gang->blocks[k]));
    const bool other = now != memory_;
    memory_ = now;
    return other;
}

// All gangs here have had a turn. False: they only polled, nothing has changed meanwhile, and all other threads of the
// system say the same of theirs.
bool Residents::may_change() {
    const bool other = busy_ || (!counted_ && changed());
    busy_ = false;
    std::unique_lock<std::mutex> guard(launch_.mutex);
    if (launch_.in_vain) return false;
    if (other) launch_.note_change();
    if (other || seen_ != launch_.changes) {
        counted_ = false;
        seen_ = launch_.changes;
        return true;
    }
    if (!counted_) ++launch_.quiet;
    counted_ = true;
    if (launch_.quiet == launch_.running) return !(launch_.in_vain = true);
    guard.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return true;
}

// What is there still does not end.
void Residents::give_up() {
    // Where a finding has stopped a block, others wait for it.
    const bool tell = !interrupted() && __atomic_load_n(&launch_.report->reserved, __ATOMIC_RELAXED) == 0;
    for (Resident& each : all_) {
        worker = each.own.get();
        Gang& gang = *each.gang;
        gang.stopped = true;
        if (tell && only_polls(gang)) report_deadlock(gang);
        else if (tell)
            finding_by(worker->current, TL_EMU_STEP_BOUND, TL_EMU_NO_SPACE, worker->current->wait_pc, nullptr, TL_EMU_NONE,
                       nullptr, nullptr, 0, "loops of the blocks poll for ever, while no memory changes");
    }
    for (Resident& each : all_) end(each);
    all_.clear();
}

void Residents::run() {
    while (!interrupted() && (!all_.empty() || begin())) {
        for (size_t k = 0; k < all_.size();) {
            if (turn(all_[k])) ++k;
            else all_.erase(all_.begin() + (std::ptrdiff_t)k);
        }
        if (!all_.empty() && !begin() && !may_change()) break;
    }
    give_up();
    std::lock_guard<std::mutex> guard(launch_.mutex);
    --launch_.running;
    launch_.note_change();
}

}  // namespace

void run_gangs(Launch& launch, std::unique_ptr<Worker> first) {
    Worker* outer = worker;  // a launch out of a launch's callback
    const SignalStack signals;
    Residents(launch, std::move(first), signals.recovery()).run();
    worker = outer;
}
}  // namespace tl_emu
