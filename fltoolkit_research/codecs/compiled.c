/* The loops that numpy and torch cannot join: see compile.py. Each gives the bits of the plain code,
   whatever the width W of a vector is: no sum has more than two terms, and none is fused. */

#include <stdint.h>

typedef float Floats __attribute__((vector_size(4 * W), aligned(4)));
typedef int32_t Bits __attribute__((vector_size(4 * W), aligned(4)));

#if W == 16
#define EACH(d) 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d, 4 ^ d, 5 ^ d, 6 ^ d, 7 ^ d, \
    8 ^ d, 9 ^ d, 10 ^ d, 11 ^ d, 12 ^ d, 13 ^ d, 14 ^ d, 15 ^ d
#elif W == 8
#define EACH(d) 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d, 4 ^ d, 5 ^ d, 6 ^ d, 7 ^ d
#else
#define EACH(d) 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d
#endif
#define AT(place) (*(Floats *)(place))
#define PAIR(a, b) { Floats sum = a + b; b = a - b; a = sum; }
/* the same within a vector: the second of two places gets minus itself plus the first */
#define WITHIN(v, d) { \
    Bits minus; \
    for (int k = 0; k < W; k++) minus[k] = k & d ? INT32_MIN : 0; \
    v = __builtin_shufflevector(v, v, EACH(d)) + (Floats)((Bits)v ^ minus); }

static inline Floats within(Floats v) {
#if W > 8
    WITHIN(v, 8)
#endif
#if W > 4
    WITHIN(v, 4)
#endif
    WITHIN(v, 2)
    WITHIN(v, 1)
    return v;
}

/* Three levels at a time: distances n/2, n/4 and n/8. */
static void three_levels(float *x, int64_t n) {
    int64_t s = n / 8;
    for (float *p = x; p < x + s; p += W) {
        Floats a = AT(p), b = AT(p + s), c = AT(p + 2 * s), d = AT(p + 3 * s);
        Floats e = AT(p + 4 * s), f = AT(p + 5 * s), g = AT(p + 6 * s), h = AT(p + 7 * s);
        PAIR(a, e) PAIR(b, f) PAIR(c, g) PAIR(d, h)
        PAIR(a, c) PAIR(b, d) PAIR(e, g) PAIR(f, h)
        PAIR(a, b) PAIR(c, d) PAIR(e, f) PAIR(g, h)
        AT(p) = a, AT(p + s) = b, AT(p + 2 * s) = c, AT(p + 3 * s) = d;
        AT(p + 4 * s) = e, AT(p + 5 * s) = f, AT(p + 6 * s) = g, AT(p + 7 * s) = h;
    }
}

/* All levels of n values, the largest distance first. */
static void butterflies(float *x, int64_t n) {
    if (n >= 8 * W) {
        three_levels(x, n);
        for (int k = 0; k < 8; k++) butterflies(x + k * (n / 8), n / 8);
        return;
    }
    for (int64_t half = n / 2; half >= W; half /= 2)
        for (float *p = x; p < x + n; p += 2 * half)
            for (float *q = p; q < p + half; q += W) PAIR(AT(q), AT(q + half))
    for (float *p = x; p < x + n; p += W) AT(p) = within(AT(p));
}

/* Times a factor; the sign of each value whose bit is 0 changes. The highest bit comes first. */
static void times(float *x, int64_t n, float factor, const uint8_t *bits) {
    for (int64_t i = 0; i < n; i += 16, bits += 2)
        for (int start = 0; start < 16; start += W) {
            Bits mask, sign;
            for (int k = 0; k < W; k++) mask[k] = 0x8000 >> (start + k), sign[k] = INT32_MIN;
            sign &= (mask & (bits[0] << 8 | bits[1])) == 0;
            AT(x + i + start) = (Floats)((Bits)(AT(x + i + start) * factor) ^ sign);
        }
}

/* In place: signs, the Hadamard transform of n values, 16 or more, and signs again. */
int64_t rotate(float *x, const uint8_t *before, const uint8_t *after, int64_t n, float factor) {
    times(x, n, 1, before);
    butterflies(x, n);
    times(x, n, factor, after);
    return 0;
}

/* The slots of the next numbers of lanes; returns how many words are taken by now. */
int64_t read_lanes(uint32_t *states, const uint16_t *words, int64_t *slots,
                   const uint32_t *multiply, const uint32_t *add, int64_t lanes,
                   int64_t num_words, int64_t taken, int64_t count) {
    for (int64_t i = 0, lane = 0; i < count; i++, lane = lane + 1 < lanes ? lane + 1 : 0) {
        uint32_t x = states[lane], slot = x & 0x7fff;
        x = multiply[slot] * (x >> 15) + add[slot];
        uint32_t low = x < 0x10000, word = taken < num_words ? words[taken] : 0;
        states[lane] = x << (low << 4) | (word & -low); /* without a jump, which takes longer */
        taken += low;
        slots[i] = slot;
    }
    return taken;
}

/* Words of these numbers, from the end of `words` on downwards; returns how many they are. */
int64_t write_lanes(double *states, const int64_t *numbers, const uint32_t *frequencies,
                    const uint32_t *before, uint16_t *words, int64_t lanes, int64_t count) {
    uint16_t *end = words + count, *next = end;
    for (int64_t i = count, lane = count % lanes; i--;) {
        lane = lane ? lane - 1 : lanes - 1;
        uint32_t x = states[lane], f = frequencies[numbers[i]];
        uint32_t over = x >= (uint64_t)f << 17;
        next[-1] = x;
        next -= over;
        x >>= over << 4;
        states[lane] = (x / f << 15) + x % f + before[numbers[i]];
    }
    return end - next;
}

/* Numbers of the range coder. `state`: range, point - lower, words taken. Returns 1 if damaged. */
int64_t read_range(uint64_t *state, const uint32_t *words, int32_t *numbers,
                   const uint32_t *edges, int64_t num_words, int64_t count, int64_t levels) {
    uint64_t range = state[0], ahead = state[1], taken = state[2];
    uint16_t first[4097]; /* the number of each 4,096th slot */
    for (uint32_t k = 0, s = 0; k <= 4096; first[k++] = s)
        while (s < levels - 1 && edges[s + 1] <= k << 12) s++;
    for (int64_t i = 0; i < count; i++) {
        uint64_t scale = range >> 24, slot = ahead / scale;
        if (slot >> 24) return 1;
        uint32_t low = first[slot >> 12], high = first[(slot >> 12) + 1];
        while (low < high) {
            uint32_t middle = (low + high + 1) / 2;
            if (edges[middle] <= slot) low = middle;
            else high = middle - 1;
        }
        ahead -= scale * edges[low];
        range = scale * (edges[low + 1] - edges[low]);
        if (!(range >> 32)) {
            range <<= 32;
            ahead = ahead << 32 | (taken < (uint64_t)num_words ? words[taken] : 0);
            taken++;
        }
        numbers[i] = low;
    }
    state[0] = range, state[1] = ahead, state[2] = taken;
    return 0;
}
