/* Hashes: a fast one keyed by the process, and MurmurHash3 as scikit-learn has it. */
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

/* MurmurHash3, 32 bits, x86, seed 0: what scikit-learn hashes tokens with. The bytes are little-endian words. */
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

static inline uint32_t murmur3(const uint8_t *p, size_t n)
{
    uint32_t h = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        h = rotate(h ^ rotate(little4(p + i) * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
    if (n & 3) { /* reads up to 3 bytes after the end */
        uint32_t tail = little4(p + i) & (0xffffffffu >> (32 - 8 * (n & 3)));
        h ^= rotate(tail * 0xcc9e2d51u, 15) * 0x1b873593u;
    }
    h ^= (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* scikit-learn's column of a hash: its absolute value modulo the width. For -2^31, whose absolute value an int32 can't
 * hold, it takes 2^31 - width instead, which is the same modulo the width. */
static inline uint32_t column_of(uint32_t h, uint32_t width)
{
    uint32_t absolute = h >> 31 ? 0u - h : h;
    return width & (width - 1) ? absolute % width : absolute & (width - 1);
}

#endif
