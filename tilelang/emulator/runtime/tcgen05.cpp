// Tensor memory and its products as kernels use them. One thread issues a product. Products are done in the order of
// issue, at the latest when a thread waits for the barrier of the next commit.
#include <algorithm>
#include <utility>

#include "async.h"
#include "state.h"
#include "tensor_memory.h"

namespace {

using namespace tl_emu;

struct Product {
    TensorProduct product;
    const void* pc;
};

// A commit: products up to a number, and the clock of the tensor core at their completion.
struct Commit {
    uint64_t until;
    uint32_t agent, clock;
};

// A store of a warp to columns of tensor memory that it has not waited for.
struct Store {
    const Warp* warp;
    unsigned column, columns;
    const void* pc;
};

struct TensorMemory {
    TensorCells cells;
    bool taken[tmem_columns] = {};
    bool relinquished = false;
    std::deque<Product> waiting;  // not done yet
    uint64_t issued = 0, done = 0;
    std::vector<Span> reads;      // of shared memory, since the last commit
    uint64_t written[tmem_columns] = {};  // the latest product that writes the column
    const void* written_pc[tmem_columns] = {};
    std::vector<Commit> commits;
    std::vector<Store> stores;
};

TensorMemory& memory() {
    std::shared_ptr<void>& kept = current()->block->tensor_memory;
    if (!kept) kept = std::make_shared<TensorMemory>();
    return *static_cast<TensorMemory*>(kept.get());
}

void run_until(TensorMemory& m, uint64_t number) {
    for (; m.done < number && !m.waiting.empty(); ++m.done) {
        m.waiting.front().product.run(m.cells);
        m.waiting.pop_front();
    }
}

[[noreturn]] void refuse(const void* pc, const char* text) {
    finding(TL_EMU_OTHER, TL_EMU_NO_SPACE, pc, nullptr, 0, "tensor memory: %s", text);
    stop();
}

// -- order
// Whether the calling thread has learnt that the product, or a later one, is complete.
bool complete_for(const TensorMemory& m, const Fiber& who, uint64_t number) {
    const Order& order = *who.gang->order;
    for (auto at = m.commits.rbegin(); at != m.commits.rend() && at->until >= number; ++at)
        if (order.known(who, at->agent, at->clock)) return true;
    return false;
}

// Columns that the calling thread uses outside of products.
void check_products(const TensorMemory& m, unsigned column, unsigned count, const void* pc) {
    Fiber* me = current();
    if (!checking(TL_EMU_SHARED_RACES) || !me->gang->order) return;
    uint64_t good = 0;
    for (unsigned c = column; c < column + count; ++c) {
        const uint64_t number = m.written[c];
        if (number <= good) continue;
        if (complete_for(m, *me, number)) {
            good = number;
            continue;
        }
        const bool committed = !m.commits.empty() && m.commits.back().until >= number;
        finding_by(me, TL_EMU_MISSING_WAIT, TL_EMU_NO_SPACE, pc, m.written_pc[c], TL_EMU_NONE, nullptr, nullptr, 0,
                   committed ? "a product writes these columns of tensor memory, and its commit's mbarrier has not been waited for"
                             : "a product writes these columns of tensor memory, and no commit tells when it is complete");
        return;
    }
}

// Columns that a product uses.
void check_stores(const TensorMemory& m, unsigned column, unsigned count, const void* pc) {
    for (const Store& each : m.stores) {
        if (each.column >= column + count || column >= each.column + each.columns) continue;
        finding_by(current(), TL_EMU_MISSING_WAIT, TL_EMU_NO_SPACE, pc, each.pc, TL_EMU_NONE, nullptr, nullptr, 0,
                   "a product uses columns of tensor memory that tcgen05.st writes, without tcgen05.wait::st in between");
        return;
    }
}

// -- columns
struct Allocation {
    uint32_t* slot;
    unsigned columns, address;
    const void* pc;
};

bool allowed(unsigned columns) { return columns >= 32 && columns <= tmem_columns && (columns & (columns - 1)) == 0; }

void allocate(void** lanes, LaneMask) {
    const auto* mine = static_cast<const Allocation*>(lanes[0]);
    if (mine == nullptr) return;
    TensorMemory& m = memory();
    if (!allowed(mine->columns)) refuse(mine->pc, "columns are allocated in powers of two from 32 to 512");
    if (m.relinquished) refuse(mine->pc, "the block has given up its permission to allocate");
    for (unsigned at = 0; at + mine->columns <= tmem_columns; at += mine->columns) {
        bool free = true;
        for (unsigned c = at; c < at + mine->columns; ++c) free &= !m.taken[c];
        if (!free) continue;
        for (unsigned c = at; c < at + mine->columns; ++c) {
            m.taken[c] = true;
            m.written[c] = 0;
            for (auto& lane : m.cells.words) lane[c] = 0x7fffffffu;  // nothing that a program may rely on
        }
        if (touch(self(), mine->slot, 4, TL_EMU_WRITE, mine->pc, 4)) *mine->slot = at;
        return;
    }
    refuse(mine->pc, "no columns are left, and the block would wait for ever");
}

void give_back(void** lanes, LaneMask) {
    const auto* mine = static_cast<const Allocation*>(lanes[0]);
    if (mine == nullptr) return;
    TensorMemory& m = memory();
    const unsigned at = mine->address & 0xffff;
    if (!allowed(mine->columns) || at % mine->columns || at + mine->columns > tmem_columns || mine->address >> 16)
        refuse(mine->pc, "these columns were never allocated together");
    for (unsigned c = at; c < at + mine->columns; ++c) {
        if (!m.taken[c]) refuse(mine->pc, "columns are given back that are not allocated");
        m.taken[c] = false;
    }
    check_products(m, at, mine->columns, mine->pc);
}

void check_columns(const TensorMemory& m, uint32_t address, unsigned count, const void* pc) {
    const unsigned at = address & 0xffff;
    for (unsigned c = at; c < at + count; ++c)
        if (c >= tmem_columns || !m.taken[c]) {
            finding(TL_EMU_OUT_OF_BOUNDS, TL_EMU_NO_SPACE, pc, nullptr, 0, "column %u of tensor memory is not allocated", c);
            stop();
        }
}

// -- registers
struct Move {
    uint32_t* registers;
    uint32_t address;
    unsigned rows, bits, repeats;
    bool load;
    const void* pc;
};

void move(void** lanes, LaneMask) {
    const auto* first = static_cast<const Move*>(lanes[0]);
    if (first == nullptr) return;
    TensorMemory& m = memory();
    const unsigned registers = fragment_registers(first->rows, first->bits, first->repeats);
    const unsigned width = first->bits / 32 * first->repeats, low = first->address >> 16, column = first->address & 0xffff;
    check_columns(m, first->address, width, first->pc);
    const unsigned quarter = current()->linear / warp_size % 4 * 32;
    if (low < quarter || low + first->rows > quarter + 32 || low % first->rows) {
        finding(TL_EMU_OUT_OF_BOUNDS, TL_EMU_NO_SPACE, first->pc, nullptr, 0,
                "this warp reaches lanes %u to %u of tensor memory, not %u to %u", quarter, quarter + 31, low, low + first->rows - 1);
        stop();
    }
    check_products(m, column, width, first->pc);
    if (!first->load && checking(TL_EMU_SHARED_RACES)) m.stores.push_back({current()->warp, column, width, first->pc});
    for (unsigned lane = 0; lane < warp_size; ++lane) {
        const auto* mine = static_cast<const Move*>(lanes[lane]);
        if (mine == nullptr) return;
        for (unsigned slot = 0; slot < registers; ++slot) {
            const TensorPlace at = fragment_place(first->rows, first->bits, lane, slot);
            uint32_t& word = m.cells.words[low + at.lane][column + at.column];
            if (first->load) mine->registers[slot] = word;
            else word = mine->registers[slot];
        }
    }
}

}  // namespace

extern "C" {

void tl_emu_tmem_alloc(void* slot, unsigned columns) {
    Allocation mine = {static_cast<uint32_t*>(slot), columns, 0, TL_EMU_PC()};
    collective("tcgen05.alloc", 0xffffffffu, &mine, allocate, TL_EMU_PC());
}
void tl_emu_tmem_free(unsigned address, unsigned columns) {
    Allocation mine = {nullptr, columns, address, TL_EMU_PC()};
    collective("tcgen05.dealloc", 0xffffffffu, &mine, give_back, TL_EMU_PC());
}
void tl_emu_tmem_relinquish(void) { memory().relinquished = true; }

// kind: see decode_instruction; a: a descriptor, or an address in tensor memory; disabled: four words or null.
void tl_emu_tcgen05_mma(char kind, unsigned d, unsigned long long a, int a_in_tensor_memory, unsigned long long b,
                        unsigned instruction, int accumulate, const unsigned* disabled) {
    const void* pc = TL_EMU_PC();
    TensorMemory& m = memory();
    Product made = {};
    made.pc = pc;
    TensorProduct& p = made.product;
    if (const char* wrong = decode_instruction(kind, instruction, p.instruction)) {
        finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_NO_SPACE, pc, nullptr, 0, "the instruction's descriptor %#x: %s", instruction, wrong);
        stop();
    }
    const TensorInstruction& t = p.instruction;
    p.accumulate = accumulate != 0;
    p.a_in_tensor_memory = a_in_tensor_memory != 0;
    p.d = d;
    p.a = (uint32_t)a;
    p.shared = {static_cast<uint8_t*>(shared_pointer(0)), 232448};
    for (int i = 0; i < 4; ++i) p.disabled[i] = disabled ? disabled[i] : 0;
    check_columns(m, d, t.n, pc);
    bool good = decode_tcgen05(b, t.flags & b_is_mn_major, p.place_b);
    if (!p.a_in_tensor_memory) good = decode_tcgen05(a, t.flags & a_is_mn_major, p.place_a) && good;
    if (!good) finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_SHARED, pc, nullptr, 0, "a descriptor of shared memory has an unknown version or swizzle");
    if (checking(TL_EMU_SHARED_RACES | TL_EMU_SHARED_BOUNDS)) {
        const auto add = [&](const MatrixPlace& place, Kind element, unsigned lines) {
            const Kind stored = kind_bits(element) < 8 ? kind_u8 : element;  // groups of 16 in 16 bytes
            const auto ranges = matrix_ranges(place, stored, lines, t.k);
            check_operand(current(), place.start, ranges, pc);
            for (const auto& [at, bytes] : ranges) m.reads.push_back({p.shared.base + at, bytes});
        };
        if (!p.a_in_tensor_memory) add(p.place_a, t.a, t.m);
        add(p.place_b, t.b, t.n);
    }
    m.waiting.push_back(made);
    ++m.issued;
    if (!checking(TL_EMU_SHARED_RACES)) return;
    if (p.accumulate) check_stores(m, d & 0xffff, t.n, pc);
    if (p.a_in_tensor_memory) check_stores(m, p.a & 0xffff, t.k * std::max(kind_bits(t.a), 8u) / 32, pc);
    for (unsigned c = d & 0xffff; c < (d & 0xffff) + t.n && c < tmem_columns; ++c) {
        m.written[c] = m.issued;
        m.written_pc[c] = pc;
    }
}

// The barriers of these blocks (0: the own one) learn of everything issued so far.
void tl_emu_tcgen05_commit(void* bar, unsigned blocks) {
    TensorMemory& m = memory();
    Work work;
    work.what = "tcgen05 products";
    work.pc = TL_EMU_PC();
    work.reads = std::exchange(m.reads, {});
    if (blocks == 0) work.arrives.push_back(bar);
    for (uint32_t rank = 0; rank < 16; ++rank)
        if (blocks >> rank & 1) work.arrives.push_back(map_shared(bar, rank));
    const uint64_t until = m.issued;
    work.run = [&m, until] { run_until(m, until); };
    const std::shared_ptr<Task> task = submit_task(std::move(work));
    if (task->write_clock != 0) m.commits.push_back({until, task->writer, task->write_clock});
}

void tl_emu_tcgen05_move(void* registers, unsigned address, unsigned rows, unsigned bits, unsigned repeats, int load) {
    Move mine = {static_cast<uint32_t*>(registers), address, rows, bits, repeats, load != 0, TL_EMU_PC()};
    const size_t bytes = 4 * (size_t)fragment_registers(rows, bits, repeats);
    Fiber* me = current();
    const bool ordered = checking(TL_EMU_SHARED_RACES);
    if (ordered && me->watches_registers) check_registers(*me, registers, bytes, load ? TL_EMU_WRITE : TL_EMU_READ, mine.pc);
    if (load) registers_written(registers, bytes);
    else registers_read(registers, bytes, mine.pc);
    if (load && ordered) {
        me->registers.push_back({static_cast<const char*>(registers), bytes, tensor_loads, mine.pc});
        me->watches_registers = true;
    }
    collective(load ? "tcgen05.ld" : "tcgen05.st", 0xffffffffu, &mine, move, TL_EMU_PC());
}

// All loads, or stores, of the thread so far are complete.
void tl_emu_tcgen05_wait(int load) {
    Fiber* me = current();
    if (load) {
        std::erase_if(me->registers, [](const OwnedRegisters& each) { return each.group == tensor_loads; });
        return;
    }
    if (me->block->tensor_memory) std::erase_if(memory().stores, [&](const Store& each) { return each.warp == me->warp; });
}

void tl_emu_tcgen05_copy(void) { refuse(TL_EMU_PC(), "tcgen05.cp is not emulated"); }

// Every block of a launch starts, so that there is never one to cancel: 16 zero bytes.
// to_all: the answer goes to the same place in every block of the cluster.
void tl_emu_clc_try_cancel(void* result, void* bar, int to_all) {
    Work work;
    work.what = "clusterlaunchcontrol.try_cancel";
    work.pc = TL_EMU_PC();
    const uint32_t blocks = to_all ? current()->gang->cluster_size : 1;
    std::vector<void*> places;
    for (uint32_t rank = 0; rank < blocks; ++rank) {
        places.push_back(to_all ? map_shared(result, rank) : result);
        work.writes.push_back({places.back(), 16});
        work.arrivals.push_back({to_all ? map_shared(bar, rank) : bar, 16});
    }
    work.run = [places] {
        for (void* place : places) std::memset(place, 0, 16);
    };
    submit(std::move(work));
}

}  // extern "C"
