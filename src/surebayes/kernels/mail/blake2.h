/* BLAKE2b (RFC 7693) without a key: what names content. */
#ifndef SUREBAYES_MAIL_BLAKE2_H
#define SUREBAYES_MAIL_BLAKE2_H

#include "../common.h"

enum { FINGERPRINT = 16, FINGERPRINT_DIGITS = 2 * FINGERPRINT }; /* bytes, and hexadecimal digits */

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Write the digest of some bytes as hexadecimal digits. */
void fingerprint_digits(const uint8_t *data, size_t size, char *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
