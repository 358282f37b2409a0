// Registers of a thread that matrix products of its warpgroup use, and how many registers a warpgroup has.
//
// Registers are arrays on the thread's stack. Products own them until they are waited for (OwnedRegisters), and
// what the thread stores there itself needs wgmma.fence before the next product.
#include <algorithm>
#include <cstdio>

#include "async.h"
#include "checks.h"
#include "state.h"

namespace tl_emu {

namespace {

constexpr uint32_t group_threads = 4 * warp_size, block_registers = 65536;

bool overlap(const char* a, size_t a_bytes, const char* b, size_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

}  // namespace

void check_registers(Fiber& who, const void* p, size_t bytes, TlEmuAccess access, const void* pc) {
    const char* at = static_cast<const char*>(p);
    for (MatrixRegisters& each : who.matrix_registers)
        if (access != TL_EMU_READ && overlap(at, bytes, each.low, each.bytes)) each.stored = pc;
    for (const OwnedRegisters& each : who.registers) {
        if (!overlap(at, bytes, each.low, each.bytes)) continue;
        finding_by(&who, TL_EMU_MISSING_WAIT, TL_EMU_REGISTERS, pc, each.pc, TL_EMU_NONE, nullptr, p, bytes,
                   each.group == tensor_loads
                       ? "registers that tcgen05.ld loads are used before tcgen05.wait::ld"
                       : "registers of an asynchronous matrix product are used before it has been waited for");
        return;
    }
}

void use_registers(Fiber& who, const Span& span, uint32_t group, const void* pc) {
    const char* low = static_cast<const char*>(span.address);
    who.registers.push_back({low, span.bytes, group, pc});
    who.watches_registers = true;
    auto found = std::find_if(who.matrix_registers.begin(), who.matrix_registers.end(),
                              [&](const MatrixRegisters& each) { return overlap(low, span.bytes, each.low, each.bytes); });
    const void* stored = nullptr;
    if (found == who.matrix_registers.end()) {
        who.matrix_registers.push_back({low, span.bytes, nullptr});
        if (who.fenced_registers) return;
    } else {
        stored = found->stored;
        if (stored == nullptr) return;
        found->stored = nullptr;
    }
    finding_by(&who, TL_EMU_MISSING_WAIT, TL_EMU_REGISTERS, pc, stored, TL_EMU_NONE, nullptr, span.address, span.bytes,
               "registers that the thread stored to are used by a matrix product without wgmma.fence in between");
}

}  // namespace tl_emu

using namespace tl_emu;

extern "C" {

void tl_emu_wgmma_fence(void) {
    Fiber* me = current();
    me->fenced_registers = true;
    for (MatrixRegisters& each : me->matrix_registers) each.stored = nullptr;
}

void tl_emu_wgmma_commit(void) {
    const auto commit = [](void** lanes, int count) {
        for (int lane = 0; lane < count; lane += part_of(count))
            if (lanes[lane] != nullptr) commit_group(Group::matrix, *static_cast<Fiber*>(lanes[lane]));
    };
    collective_group("wgmma.commit_group", 4, current(), commit, TL_EMU_PC());
}

void tl_emu_wgmma_wait(unsigned left) { wait_group(Group::matrix, left, false, TL_EMU_PC()); }

// setmaxnreg: what all warpgroups of the block hold must fit in the multiprocessor.
void tl_emu_set_registers(int count, int raising) {
    (void)raising;
    Fiber* me = current();
    const void* pc = TL_EMU_PC();
    char text[160];
    if (count < 24 || count > 256 || count % 8 != 0) {
        snprintf(text, sizeof text, "setmaxnreg of %d registers: 24 to 256 in steps of 8 are possible", count);
        finding_by(me, TL_EMU_OTHER, TL_EMU_REGISTERS, pc, nullptr, TL_EMU_NONE, nullptr, nullptr, 0, text);
        return;
    }
    Block& block = *me->block;
    block.registers[me->linear / group_threads] = (uint32_t)count;
    uint32_t total = 0;
    const uint32_t groups = (me->gang->threads + group_threads - 1) / group_threads;
    for (uint32_t k = 0; k < groups; ++k) {
        if (block.registers[k] == 0) return;  // not all have said how many they need
        total += block.registers[k] * group_threads;
    }
    if (total <= block_registers) return;
    snprintf(text, sizeof text, "the warpgroups of the block hold %u registers together, there are %u", total, block_registers);
    finding_by(me, TL_EMU_OTHER, TL_EMU_REGISTERS, pc, nullptr, TL_EMU_NONE, nullptr, nullptr, 0, text);
}

}  // extern "C"
