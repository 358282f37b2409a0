// Integer programs (tilelang/ir/postfix.py documents them and does the same in Python). Part of
// _launcher.c, and of libraries that are exported for GPUs.

#include <stdint.h>

#define STACK 32
enum { NO_VALUE = -2 };

static int64_t floor_div(int64_t a, int64_t b) {
    const int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

// Overflow wraps (as unsigned), so that absurd sizes are compared and refused, never undefined.
#define WRAP(op) (int64_t)((uint64_t)a op (uint64_t)b)

// One binary operation of two values; -1 when it has no value.
static inline int binary(int64_t op, int64_t a, int64_t b, int64_t* r) {
    switch (op) {
        case 2: *r = WRAP(+); return 0;
        case 3: *r = WRAP(-); return 0;
        case 4: *r = WRAP(*); return 0;
        case 5: case 6: case 7: case 8:
            if (b == 0) return -1;
            if (b == -1) { *r = op == 5 || op == 7 ? (int64_t)(0 - (uint64_t)a) : 0; return 0; }
            if (op == 5) *r = floor_div(a, b);
            else if (op == 6) *r = a - floor_div(a, b) * b;
            else *r = op == 7 ? a / b : a % b;
            return 0;
        case 9: *r = a < b ? a : b; return 0;
        case 10: *r = a > b ? a : b; return 0;
        case 11: *r = a == b; return 0;
        case 12: *r = a != b; return 0;
        case 13: *r = a < b; return 0;
        case 14: *r = a <= b; return 0;
        case 15: *r = a > b; return 0;
        case 16: *r = a >= b; return 0;
        case 17: *r = a && b; return 0;
        case 18: *r = a || b; return 0;
        case 19: *r = a & b; return 0;
        case 20: *r = a | b; return 0;
        case 21: *r = a ^ b; return 0;
        case 22: *r = b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); return 0;
        case 23: *r = a >> (b < 0 || b > 63 ? 63 : b); return 0;
        default: return -1;
    }
}

// Evaluate `length` pairs of operation and operand. `dead` has a bit per operand without a value.
static int evaluate(const int64_t* p, int64_t length, const int64_t* values, int64_t* out) {
    int64_t s[STACK];
    uint64_t dead = 0;
    int top = 0;
    for (int64_t i = 0; i < length; ++i, p += 2) {
        const int64_t op = p[0];
        if (op <= 1) {
            dead &= ~((uint64_t)1 << top);
            s[top++] = op == 0 ? p[1] : values[p[1]];
        } else if (op == 24) {
            s[top - 1] = !s[top - 1];
        } else if (op == 25) {
            s[top - 1] = (int64_t)(0 - (uint64_t)s[top - 1]);
        } else if (op == 26) {
            top -= 2;
            const int from = s[top - 1] ? top : top + 1;
            const uint64_t bad = (dead >> (top - 1) | dead >> from) & 1;
            s[top - 1] = s[from];
            dead |= bad << (top - 1);
        } else {
            const int64_t b = s[--top], a = s[top - 1];
            const uint64_t bit = (uint64_t)1 << (top - 1);
            if (!(dead & bit) && ((op == 17 && !a) || (op == 18 && a))) {
                s[top - 1] = op == 18;
            } else if ((dead & (bit | bit << 1)) || binary(op, a, b, &s[top - 1]) < 0) {
                dead |= bit;
            }
        }
    }
    *out = s[0];
    return dead & 1 ? NO_VALUE : 0;
}
