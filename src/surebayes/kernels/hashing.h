/* Hash functions: a fast one with a key per process, and scikit-learn's MurmurHash3. */
#ifndef SUREBAYES_HASHING_H
#define SUREBAYES_HASHING_H

#include "common.h"

/* Both halves of the 128-bit product, folded. */
static inline uint64_t fold(uint64_t x, uint64_t y)
{
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)x * y;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#elif defined(_MSC_VER) && defined(_M_X64)
    uint64_t high, low = _umul128(x, y, &high);
    return low ^ high;
#else
    uint64_t a = x >> 32, b = (uint32_t)x, c = y >> 32, d = (uint32_t)y;
    uint64_t bd = b * d, ad = a * d, bc = b * c;
    uint64_t middle = (bd >> 32) + (uint32_t)ad + (uint32_t)bc;
    uint64_t high = a * c + (ad >> 32) + (bc >> 32) + (middle >> 32);
    return (middle << 32 | (uint32_t)bd) ^ high;
#endif
}

/* MurmurHash3, 32 bits, x86, seed 0: scikit-learn's hash of tokens. The bytes are little-endian words. */
static inline uint32_t rotate(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

static inline uint32_t little4(const uint8_t *p)
{
#if BIG_ENDIAN_HOST
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
#else
    return load4(p);
#endif
}

/* One step for a word; an incomplete word is the last one and is only mixed in. */
static ALWAYS_INLINE uint32_t murmur_tail(uint32_t h, uint32_t word)
{
    return h ^ rotate(word * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static ALWAYS_INLINE uint32_t murmur_word(uint32_t h, uint32_t word)
{
    return rotate(murmur_tail(h, word), 13) * 5 + 0xe6546b64u;
}

static ALWAYS_INLINE uint32_t murmur_end(uint32_t h, uint32_t n)
{
    h ^= n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* `padded`: whether 3 bytes after the end may be read. */
static inline uint32_t murmur3_of(const uint8_t *p, size_t n, bool padded)
{
    uint32_t h = 0, tail = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        h = murmur_word(h, little4(p + i));
    if (n & 3) {
        if (padded)
            tail = little4(p + i) & (0xffffffffu >> (32 - 8 * (n & 3)));
        else
            for (size_t j = n; j > i; j--)
                tail = tail << 8 | p[j - 1];
        h = murmur_tail(h, tail);
    }
    return murmur_end(h, (uint32_t)n);
}

static inline uint32_t murmur3(const uint8_t *p, size_t n)
{
    return murmur3_of(p, n, true);
}

/* scikit-learn's column of a hash: its absolute value modulo the width. For -2^31, whose absolute value an int32 can't
 * hold, it takes 2^31 - width instead, which is the same modulo the width. */
static inline uint32_t column_of(uint32_t h, uint32_t width)
{
    uint32_t absolute = h >> 31 ? 0u - h : h;
    return width & (width - 1) ? absolute % width : absolute & (width - 1);
}

#endif
