/* Hashes of terms. */
#ifndef SUREBAYES_TEXT_HASHING_H
#define SUREBAYES_TEXT_HASHING_H

#include "../hashing.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Secret keys of this process, so that no one can craft text whose words collide. Results don't depend on them. */
extern uint64_t secret_a, secret_b;
int take_secrets(void);

uint64_t hash_bytes(const uint8_t *p, size_t n);

/* The columns of n-grams of 3 to 8 bytes: words[i] are the four bytes from i on, little-endian. `mask` is the width
 * minus 1 if the width is a power of two, otherwise all ones. */
void hash_short_grams(const uint32_t *words, size_t n, size_t size, uint32_t mask, uint32_t *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
