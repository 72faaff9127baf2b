/* What a fingerprint is of. */
#ifndef SUREBAYES_MAIL_FINGERPRINT_H
#define SUREBAYES_MAIL_FINGERPRINT_H

#include "ascii.h"

/* Bytes that three parts may take more folded than before, and while they are. */
enum { FOLDED_MORE = 3 + PADDING };

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Write a Message-ID without white space (so many bytes are its `name`), subject and text with every run of it as one
 * blank, a line each; how many bytes it is, -1 for a Message-ID that isn't plain ASCII. */
Py_ssize_t fold_parts(Span identity, Span subject, Span text, char *out, Py_ssize_t *name);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
