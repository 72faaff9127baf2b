/* BLAKE2b (RFC 7693), as hashlib computes it, with digests of 16 bytes. */
#include "blake2.h"

enum { BLOCK = 128, ROUNDS = 12 };

static const uint64_t initial[8] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
    UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179),
};

static const uint8_t order[ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t turned(uint64_t x, int by)
{
    return x >> by | x << (64 - by);
}

static inline uint64_t little8(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

#define MIX(a, b, c, d, x, y)                                                                                          \
    do {                                                                                                               \
        v[a] += v[b] + (x);                                                                                            \
        v[d] = turned(v[d] ^ v[a], 32);                                                                                \
        v[c] += v[d];                                                                                                  \
        v[b] = turned(v[b] ^ v[c], 24);                                                                                \
        v[a] += v[b] + (y);                                                                                            \
        v[d] = turned(v[d] ^ v[a], 16);                                                                                \
        v[c] += v[d];                                                                                                  \
        v[b] = turned(v[b] ^ v[c], 63);                                                                                \
    } while (0)

/* Hash one block; `so_far` counts all bytes up to its end, `last` marks the last block. */
static void take_block(uint64_t state[8], const uint8_t *block, uint64_t so_far, bool last)
{
    uint64_t v[16], m[16];
    for (int i = 0; i < 16; i++)
        m[i] = little8(block + 8 * i);
    for (int i = 0; i < 8; i++) {
        v[i] = state[i];
        v[i + 8] = initial[i];
    }
    v[12] ^= so_far;
    v[14] ^= last ? ~UINT64_C(0) : 0;
#if defined(__GNUC__)
#pragma GCC unroll 12
#endif
    for (int r = 0; r < ROUNDS; r++) {
        const uint8_t *s = order[r];
        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++)
        state[i] ^= v[i] ^ v[i + 8];
}

/* Hash the remaining bytes, after `before` bytes in whole blocks. */
static void take_all(uint64_t state[8], const uint8_t *data, size_t size, uint64_t before)
{
    uint8_t last[BLOCK] = {0};
    size_t so_far = 0;
    for (; size - so_far > BLOCK && so_far < size; data += BLOCK) {
        so_far += BLOCK;
        take_block(state, data, before + so_far, false);
    }
    if (size > so_far)
        memcpy(last, data, size - so_far);
    take_block(state, last, before + size, true);
}

void keyed_start(const uint8_t *key, size_t size, uint64_t state[8])
{
    uint8_t block[BLOCK] = {0};
    memcpy(block, key, size);
    memcpy(state, initial, sizeof initial);
    state[0] ^= UINT64_C(0x01010000) ^ (uint64_t)size << 8 ^ FINGERPRINT;
    take_block(state, block, BLOCK, false);
}

void keyed_digest(const uint64_t start[8], const uint8_t *data, size_t size, uint8_t *out)
{
    uint64_t state[8];
    memcpy(state, start, sizeof state);
    take_all(state, data, size, BLOCK);
    for (int i = 0; i < FINGERPRINT; i++)
        out[i] = (uint8_t)(state[i / 8] >> 8 * (i % 8));
}

void fingerprint_digits(const uint8_t *data, size_t size, char *out)
{
    uint64_t state[8];
    memcpy(state, initial, sizeof state);
    state[0] ^= UINT64_C(0x01010000) ^ FINGERPRINT; /* no key; the length of the digest */
    take_all(state, data, size, 0);
    for (int i = 0; i < FINGERPRINT; i++) {
        unsigned byte = (unsigned)(state[i / 8] >> 8 * (i % 8)) & 255;
        *out++ = "0123456789abcdef"[byte >> 4];
        *out++ = "0123456789abcdef"[byte & 15];
    }
}
