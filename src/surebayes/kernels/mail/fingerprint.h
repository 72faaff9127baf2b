/* Canonical form of a message, the input of its fingerprint. */
#ifndef SUREBAYES_MAIL_FINGERPRINT_H
#define SUREBAYES_MAIL_FINGERPRINT_H

#include "ascii.h"

/* Extra room for the three folded parts, and during folding. */
enum { FOLDED_MORE = 3 + PADDING };

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Write one line each: the Message-ID without white space (`name` is its size), subject and text with each run of white
 * space as one blank. Return the number of bytes, -1 for a Message-ID that isn't plain ASCII. */
Py_ssize_t fold_parts(Span identity, Span subject, Span text, char *out, Py_ssize_t *name);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
