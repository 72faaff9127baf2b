/* BLAKE2b (RFC 7693), for fingerprints, and with a key for Message-IDs. */
#ifndef SUREBAYES_MAIL_BLAKE2_H
#define SUREBAYES_MAIL_BLAKE2_H

#include "../common.h"

enum { FINGERPRINT = 16, FINGERPRINT_DIGITS = 2 * FINGERPRINT }; /* bytes, and hexadecimal digits */

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Write the digest of bytes as hexadecimal digits. */
void fingerprint_digits(const uint8_t *data, size_t size, char *out);

enum { LONGEST_KEY = 64 };

/* The initial state of keyed digests. */
void keyed_start(const uint8_t *key, size_t size, uint64_t state[8]);
/* Write the digest, of FINGERPRINT bytes, of at least one byte. */
void keyed_digest(const uint64_t start[8], const uint8_t *data, size_t size, uint8_t *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
