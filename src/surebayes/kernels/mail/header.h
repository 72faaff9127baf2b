/* Header blocks. */
#ifndef SUREBAYES_MAIL_HEADER_H
#define SUREBAYES_MAIL_HEADER_H

#include "ascii.h"

enum { MAIL_FIELDS = 5 };

typedef struct {
    const unsigned char *end, *body; /* the end of the header block, the start of the body */
    Py_ssize_t count, longest;
    Span value[MAIL_FIELDS]; /* of the first field of each name; `at` is NULL if there is none */
} MailHead;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Whether lines end in \r alone, as on old systems. */
bool has_old_line_ends(const unsigned char *raw, Py_ssize_t size);

/* Read the header block between two places. */
void scan_head(const unsigned char *line, const unsigned char *stop, MailHead *head);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
