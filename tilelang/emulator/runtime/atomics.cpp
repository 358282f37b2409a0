// Atomic operations on the host's atomics, and what the checks learn about their order.
#include "atomics.h"

#include <type_traits>

#include "checks.h"
#include "numbers.h"
#include "tl_emu.h"

extern "C" int tl_emu_is_shared(const void* p);

namespace {

using namespace tl_emu;

constexpr int acquire = 1, release = 2;  // bits of an order, as in tl_atomic.h

template <class T> T combined(char what, T old, T value) {
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        switch (what) {
            case '+': return (T)((U)old + (U)value);
            case '|': return (T)((U)old | (U)value);
            case '&': return (T)((U)old & (U)value);
            case 'x': return (T)((U)old ^ (U)value);
            case 'i': return (U)old >= (U)value ? 0 : (T)((U)old + 1);
            case 'd': return old == 0 || (U)old > (U)value ? value : (T)((U)old - 1);
            default: break;
        }
    } else if (what == '+') {
        return old + value;
    }
    switch (what) {
        case '^': return value > old || (old != old && value == value) ? value : old;
        case '_': return value < old || (old != old && value == value) ? value : old;
        default: return value;
    }
}

// Replaces the word at p by what `next` makes of it; the word that was there.
template <class Word, class Next> Word replace(void* p, Next next) {
    auto* word = static_cast<Word*>(p);
    Word old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(word, &old, next(old), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    return old;
}

// A format whose words are values of type T.
template <class T> void apply(char what, void* p, const void* value, void* old) {
    using Small = std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
    using Large = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    using Word = std::conditional_t<(sizeof(T) < 4), Small, Large>;
    const T v = value ? *static_cast<const T*>(value) : T();
    Word was;
    if (what == 'l') was = __atomic_load_n(static_cast<Word*>(p), __ATOMIC_SEQ_CST);
    else
        was = replace<Word>(p, [&](Word word) {
            return __builtin_bit_cast(Word, combined(what, __builtin_bit_cast(T, word), v));
        });
    if (old) std::memcpy(old, &was, sizeof(T));
}

float flushed(float x) { return (bits_of(x) & 0x7f800000u) == 0 ? float_of(bits_of(x) & 0x80000000u) : x; }

// Sums of float32 in global memory take subnormal numbers for zero, those in shared memory do not.
void add_float(void* p, const void* value, void* old) {
    const bool keep = tl_emu_is_shared(p) != 0;
    const float v = *static_cast<const float*>(value);
    const uint32_t was = replace<uint32_t>(p, [&](uint32_t word) {
        const float sum = keep ? float_of(word) + v : flushed(flushed(float_of(word)) + flushed(v));
        return sum == sum ? bits_of(sum) : canonical_nan;
    });
    if (old) std::memcpy(old, &was, 4);
}

// float16 and bfloat16: words of 16 bits, values of type float.
void apply_half(Kind kind, char what, void* p, const void* value, void* old, bool rounded) {
    float v = value ? *static_cast<const float*>(value) : 0.0f;
    if (rounded && what == '+') v = number_of(kind, code_of(kind, v));
    uint16_t was;
    if (what == 'l') was = __atomic_load_n(static_cast<uint16_t*>(p), __ATOMIC_SEQ_CST);
    else
        was = replace<uint16_t>(p, [&](uint16_t word) {
            const float before = number_of(kind, word), after = combined(what, before, v);
            const bool kept = (what == '^' || what == '_') && bits_of(after) == bits_of(before);
            // The instruction rounds the exact sum; a loop over compare-and-swap rounds it to float32 first.
            if (what == '+' && rounded) return (uint16_t)code_of(kind, (double)before + (double)v);
            return kept ? word : (uint16_t)code_of(kind, after);
        });
    if (old) {
        const float number = number_of(kind, was);
        std::memcpy(old, &number, 4);
    }
}

void apply_kind(Kind kind, char what, void* p, const void* value, void* old, bool rounded) {
    switch (kind) {
        case kind_f16: case kind_bf16: return apply_half(kind, what, p, value, old, rounded);
        case kind_f32: return what == '+' ? add_float(p, value, old) : apply<float>(what, p, value, old);
        case kind_f64: return apply<double>(what, p, value, old);
        case kind_s8: return apply<int8_t>(what, p, value, old);
        case kind_u8: return apply<uint8_t>(what, p, value, old);
        case kind_s16: return apply<int16_t>(what, p, value, old);
        case kind_u16: return apply<uint16_t>(what, p, value, old);
        case kind_s32: return apply<int32_t>(what, p, value, old);
        case kind_u32: return apply<uint32_t>(what, p, value, old);
        case kind_s64: return apply<int64_t>(what, p, value, old);
        default: return apply<uint64_t>(what, p, value, old);
    }
}

}  // namespace

namespace tl_emu {

void reduce_element(char what, Kind kind, void* p, const void* raw) {
    if (kind_bits(kind) != 16) return apply_kind(kind, what, p, raw, nullptr, true);
    uint16_t code;
    std::memcpy(&code, raw, 2);
    const float value = number_of(kind, code);
    apply_half(kind, what, p, &value, nullptr, true);
}

}  // namespace tl_emu

extern "C" void tl_emu_atomic(char what, unsigned kind, void* p, const void* value, void* old, int order, bool rounded) {
    const void* pc = TL_EMU_PC();
    const auto format = static_cast<Kind>(kind);
    const unsigned bytes = kind_bits(format) / 8;
    if (old) std::memset(old, 0, kind_is_integer(format) || bytes > 4 ? bytes : 4);
    // Loads and exchanges are what loops that wait for others consist of.
    if (what == 'l' || what == '=') yield(pc);
    if (!touch(self(), p, bytes, TL_EMU_ATOMIC, pc, bytes)) return;
    if (order & release) release_at(p);
    apply_kind(format, what, p, value, old, rounded);
    if (order & acquire) acquire_at(p);
}

// Compare and swap of 2, 4 or 8 bytes: whether the word was `*old`, which becomes what it was.
extern "C" bool tl_emu_compare_exchange(void* p, unsigned bytes, void* old, const void* value, int order) {
    const void* pc = TL_EMU_PC();
    yield(pc);
    if (!touch(self(), p, bytes, TL_EMU_ATOMIC, pc, bytes)) return false;
    if (order & release) release_at(p);
    const auto swap = [&](auto word) {
        decltype(word) wanted, next;
        std::memcpy(&wanted, old, sizeof wanted);
        std::memcpy(&next, value, sizeof next);
        const bool done = __atomic_compare_exchange_n(static_cast<decltype(word)*>(p), &wanted, next, false, __ATOMIC_SEQ_CST,
                                                      __ATOMIC_SEQ_CST);
        // A sum by exchanges is no wait, however many threads make theirs.
        if (done && wanted != next) note_progress();
        std::memcpy(old, &wanted, sizeof wanted);
        return done;
    };
    const bool done = bytes == 2 ? swap(uint16_t{}) : bytes == 4 ? swap(uint32_t{}) : swap(uint64_t{});
    if (order & acquire) acquire_at(p);
    return done;
}

extern "C" void tl_emu_store_nibble(void* byte, int shift, int value) {
    begin_shared_byte(byte);
    if (!touch(self(), byte, 1, TL_EMU_ATOMIC, TL_EMU_PC())) return;
    replace<uint8_t>(byte, [&](uint8_t old) { return (uint8_t)((old & ~(15 << shift)) | value << shift); });
}

// The word that was there; `value` is in its place if that was `seen`.
extern "C" unsigned tl_emu_compare_and_swap(void* word, unsigned seen, unsigned value) {
    const void* pc = TL_EMU_PC();
    yield(pc);
    if (!touch(self(), word, 4, TL_EMU_ATOMIC, pc, 4)) return seen;
    if (__atomic_compare_exchange_n(static_cast<uint32_t*>(word), &seen, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
        && seen != value)
        note_progress();
    return seen;
}
