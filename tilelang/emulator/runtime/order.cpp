#include "order.h"

#include <algorithm>
#include <cstring>

#include "state.h"

namespace tl_emu {

namespace {
void join(uint32_t* into, const uint32_t* from, uint32_t count) {
    for (uint32_t k = 0; k < count; ++k) into[k] = std::max(into[k], from[k]);
}
constexpr size_t most_sets = 1u << 20, most_readers = 1u << 23;
}  // namespace

void Joined::clear() {
    std::fill(known.begin(), known.end(), 0u);
    std::fill(fenced.begin(), fenced.end(), 0u);
    last = 0;
    any = any_fenced = false;
    foreign.reset();
}

// -- other gangs -----------------------------------------------------------------------------------------------
namespace {
using Clocks = std::shared_ptr<const std::vector<uint32_t>>;

bool covers(const std::vector<uint32_t>& a, const uint32_t* b) {
    bool all = true;
    for (size_t k = 0; k < a.size(); ++k) all &= a[k] >= b[k];
    return all;
}

// The larger of each; one of both where that is enough.
Clocks joined(const Clocks& a, const Clocks& b) {
    if (a == b || covers(*a, b->data())) return a;
    if (covers(*b, a->data())) return b;
    auto both = std::make_shared<std::vector<uint32_t>>(*a);
    join(both->data(), b->data(), (uint32_t)both->size());
    return both;
}
}  // namespace

Foreign joined(const Foreign& a, const Foreign& b) {
    if (b == nullptr || a == b) return a;
    if (a == nullptr) return b;
    auto both = std::make_shared<std::vector<KnownGang>>();
    both->reserve(a->size() + b->size());
    bool as_a = true, as_b = true;  // nothing is new to it
    for (auto x = a->begin(), y = b->begin(); x != a->end() || y != b->end();) {
        if (y == b->end() || (x != a->end() && x->gang < y->gang)) {
            both->push_back(*x++);
            as_b = false;
        } else if (x == a->end() || y->gang < x->gang) {
            both->push_back(*y++);
            as_a = false;
        } else {
            both->push_back({x->gang, joined(x->clocks, y->clocks)});
            as_a = as_a && both->back().clocks == x->clocks;
            as_b = as_b && both->back().clocks == y->clocks;
            ++x, ++y;
        }
    }
    if (as_a) return a;
    return as_b ? b : both;
}

Foreign joined(const Foreign& a, uint32_t gang, const uint32_t* clocks, uint32_t count) {
    const std::vector<uint32_t>* before = clocks_of(a, gang);
    if (before != nullptr && covers(*before, clocks)) return a;
    auto own = std::make_shared<std::vector<uint32_t>>(clocks, clocks + count);
    return joined(a, std::make_shared<std::vector<KnownGang>>(1, KnownGang{gang, std::move(own)}));
}

const std::vector<uint32_t>* clocks_of(const Foreign& foreign, uint32_t gang) {
    if (foreign == nullptr) return nullptr;
    const auto at = std::lower_bound(foreign->begin(), foreign->end(), gang,
                                     [](const KnownGang& each, uint32_t number) { return each.gang < number; });
    return at != foreign->end() && at->gang == gang ? at->clocks.get() : nullptr;
}

Order::Order(uint32_t blocks, uint32_t block_threads, uint32_t block_agents)
    : size_(blocks * (block_threads + block_agents)), threads_(blocks * block_threads), block_threads_(block_threads) {
    steps_.resize(1024);
}

// -- views -----------------------------------------------------------------------------------------------------
View* Order::create() {
    View* view;
    if (free_.empty()) {
        storage_.push_back(std::make_unique<uint32_t[]>(2 * (size_t)size_));
        views_.push_back(std::make_unique<View>());
        view = views_.back().get();
        view->known = storage_.back().get();
        view->fenced = view->known + size_;
    } else {
        view = free_.back();
        free_.pop_back();
        memset(view->known, 0, 2 * (size_t)size_ * sizeof(uint32_t));
    }
    view->serial = ++serial_;
    view->references = 1;
    view->any_fenced = false;
    return view;
}

void Order::drop(View* view) {
    if (view == nullptr || --view->references > 0) return;
    view->foreign.reset();
    free_.push_back(view);
}

void Order::set_view(Fiber& fiber, View* view) {
    if (fiber.view == view) return;
    take(view);
    drop(fiber.view);
    fiber.view = view;
}

bool Order::known(const Fiber& fiber, uint32_t id, uint32_t clock) const {
    return id == fiber.id || clock <= fiber.view->known[id];
}

bool Order::fenced(const Fiber& fiber, uint32_t id, uint32_t clock) const { return clock <= fiber.view->fenced[id]; }

// -- barriers --------------------------------------------------------------------------------------------------
void Order::release(Joined& joined, Fiber& fiber) {
    joined.known.resize(size_);
    if (joined.last != fiber.view->serial) {
        join(joined.known.data(), fiber.view->known, size_);
        if (fiber.view->any_fenced) {
            joined.fenced.resize(size_);
            join(joined.fenced.data(), fiber.view->fenced, size_);
            joined.any_fenced = true;
        }
        joined.foreign = tl_emu::joined(joined.foreign, fiber.view->foreign);
        joined.last = fiber.view->serial;
    }
    joined.known[fiber.id] = std::max(joined.known[fiber.id], fiber.clock);
    joined.any = true;
    ++fiber.clock;
}

void Order::release(Joined& joined, uint32_t agent, uint32_t clock) {
    joined.known.resize(size_);
    joined.known[agent] = std::max(joined.known[agent], clock);
    joined.any = true;
}

View* Order::view_of(const Joined& joined) {
    View* view = create();
    if (!joined.known.empty()) memcpy(view->known, joined.known.data(), size_ * sizeof(uint32_t));
    if (joined.any_fenced) {
        memcpy(view->fenced, joined.fenced.data(), size_ * sizeof(uint32_t));
        view->any_fenced = true;
    }
    view->foreign = joined.foreign;
    return view;
}

void Order::acquire(Fiber& fiber, View* view) {
    View* own = fiber.view;
    if (own == view) return;
    if (last_result_ == nullptr || last_a_ != own->serial || last_b_ != view->serial) {
        View* result = create();
        memcpy(result->known, own->known, 2 * (size_t)size_ * sizeof(uint32_t));
        join(result->known, view->known, size_);
        if (view->any_fenced) join(result->fenced, view->fenced, size_);
        result->any_fenced = own->any_fenced || view->any_fenced;
        result->foreign = joined(own->foreign, view->foreign);
        drop(last_result_);
        last_result_ = result;
        last_a_ = own->serial;
        last_b_ = view->serial;
    }
    set_view(fiber, last_result_);
}

void Order::acquire(Fiber& fiber, const Joined& joined) {
    if (!joined.any) return;
    View* view = view_of(joined);
    acquire(fiber, view);
    drop(view);
}

void Order::learn(Fiber& fiber, uint32_t agent, uint32_t clock) {
    if (fiber.view->known[agent] >= clock) return;
    View* view = create();
    memcpy(view->known, fiber.view->known, 2 * (size_t)size_ * sizeof(uint32_t));
    view->any_fenced = fiber.view->any_fenced;
    view->foreign = fiber.view->foreign;
    view->known[agent] = clock;
    set_view(fiber, view);
    drop(view);
}

void Order::release(Foreign& flag, Fiber& fiber, uint32_t gang) {
    flag = joined(flag, fiber.view->foreign);
    std::vector<uint32_t> own(fiber.view->known, fiber.view->known + size_);
    own[fiber.id] = std::max(own[fiber.id], fiber.clock);
    flag = joined(flag, gang, own.data(), size_);
    ++fiber.clock;
}

void Order::acquire(Fiber& fiber, const Foreign& flag, uint32_t gang) {
    const Foreign both = joined(fiber.view->foreign, flag);
    const std::vector<uint32_t>* own = clocks_of(flag, gang);  // what came back to the gang
    const bool more = own != nullptr && !std::equal(own->begin(), own->end(), fiber.view->known,
                                                    [](uint32_t told, uint32_t known) { return told <= known; });
    if (both == fiber.view->foreign && !more) return;
    View* view = create();
    memcpy(view->known, fiber.view->known, 2 * (size_t)size_ * sizeof(uint32_t));
    if (more) join(view->known, own->data(), size_);
    view->any_fenced = fiber.view->any_fenced;
    view->foreign = both;
    set_view(fiber, view);
    drop(view);
}

void Order::fence_proxy(Fiber& fiber) {
    View* view = create();
    memcpy(view->known, fiber.view->known, 2 * (size_t)size_ * sizeof(uint32_t));
    join(view->fenced, view->known, threads_);
    view->fenced[fiber.id] = fiber.clock;
    view->any_fenced = true;
    view->foreign = fiber.view->foreign;
    set_view(fiber, view);
    drop(view);
    ++fiber.clock;  // what it stores from now on is not fenced
}

// -- readers ---------------------------------------------------------------------------------------------------
namespace {
bool same(const Reader& a, const Reader& b) {
    return a.id == b.id && a.clock == b.clock && a.site == b.site && a.atomic == b.atomic;
}

size_t step_hash(uint32_t from, const Reader& reader) {
    uint64_t h = from * 0x9E3779B97F4A7C15ull ^ (reader.id * 2 + reader.atomic) * 0xC2B2AE3D27D4EB4Full ^
                 (uint64_t)reader.clock << 32 ^ (uint32_t)reader.site;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9ull;
    return (size_t)(h ^ h >> 32);
}
}  // namespace

const Order::Step* Order::find(uint32_t from, const Reader& reader) const {
    const size_t mask = steps_.size() - 1;
    for (size_t at = step_hash(from, reader) & mask;; at = (at + 1) & mask) {
        const Step& step = steps_[at];
        if (step.to == 0) return nullptr;
        if (step.from == from && same(step.reader, reader)) return &step;
    }
}

void Order::remember(const Step& step) {
    if (2 * ++step_count_ > steps_.size()) {
        std::vector<Step> old(steps_.size() * 2);
        old.swap(steps_);
        step_count_ = 1;
        for (const Step& each : old)
            if (each.to != 0) remember(each);
    }
    const size_t mask = steps_.size() - 1;
    size_t at = step_hash(step.from, step.reader) & mask;
    while (steps_[at].to != 0) at = (at + 1) & mask;
    steps_[at] = step;
}

uint32_t Order::with_reader(uint32_t from, const Fiber* pruner, Reader reader) {
    if (from < base_) from = 0;
    if (const Step* step = find(from, reader)) return step->to;
    if (sets_.size() > most_sets || pool_.size() > most_readers) {
        // Only a program without barriers gets here. Its oldest readers are dropped.
        base_ += (uint32_t)sets_.size();
        sets_.clear();
        pool_.clear();
        std::fill(steps_.begin(), steps_.end(), Step{});
        step_count_ = 0;
        from = 0;
    }
    Set set{(uint32_t)pool_.size(), 0, block_of(reader.id), reader.atomic};
    if (from != 0) {
        const Set old = sets_[from - base_];
        for (uint32_t k = 0; k < old.count; ++k) {
            const Reader each = pool_[old.first + k];
            if ((each.id == reader.id && each.atomic == reader.atomic) || (pruner != nullptr && known(*pruner, each.id, each.clock))) continue;
            if (block_of(each.id) != set.block) set.block = several;
            set.any_atomic = set.any_atomic || each.atomic;
            pool_.push_back(each);
            ++set.count;
        }
    }
    uint32_t to;
    if (set.count == 0 && from != 0) {
        to = with_reader(0, pruner, reader);
    } else {
        pool_.push_back(reader);
        ++set.count;
        sets_.push_back(set);
        to = base_ + (uint32_t)sets_.size() - 1;
    }
    remember({from, reader, to});
    // Reading once more changes nothing.
    if (find(to, reader) == nullptr) remember({to, reader, to});
    return to;
}

uint32_t Order::with_reader(uint32_t from, Fiber& fiber, int32_t site, bool atomic) {
    ReadCache& cache = fiber.reads;
    const uint32_t slot = from & 3;
    if (cache.to[slot] >= base_ && cache.from[slot] == from && cache.clock[slot] == fiber.clock &&
        cache.site[slot] == site && cache.atomic[slot] == atomic)
        return cache.to[slot];
    const uint32_t to = with_reader(from, &fiber, {fiber.id, fiber.clock, site, atomic});
    cache.from[slot] = from;
    cache.to[slot] = to;
    cache.clock[slot] = fiber.clock;
    cache.site[slot] = site;
    cache.atomic[slot] = atomic;
    return to;
}

const Reader* Order::readers(uint32_t set, uint32_t& count) const {
    if (set < base_) {
        count = 0;
        return nullptr;
    }
    const Set& found = sets_[set - base_];
    count = found.count;
    return pool_.data() + found.first;
}
}  // namespace tl_emu
