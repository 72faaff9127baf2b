/* Whole mails. */
#ifndef SUREBAYES_MAIL_MIME_H
#define SUREBAYES_MAIL_MIME_H

#include "header.h"
#include "header_tables.h"
#include "content_type.h"

typedef enum { MAIL_READ, MAIL_OTHER, MAIL_ERROR } MailStatus;

typedef struct {
    Py_ssize_t bytes, parts, depth, headers, header_length, decoded;
} MailLimits;

/* What tokens are made of: the start of an attachment's type, and how its name ends, after the last dot. */
typedef struct {
    char type[60], ending[12];
    size_t type_size, ending_size;
    bool has_ending;
} PlainAttachment;

typedef struct {
    const unsigned char *base;
    Py_ssize_t parts, boundaries, depth, room, longest;
    int flags;
    PyObject *fallback, *helpers; /* borrowed; no helpers: then the GIL isn't held, and a mail that needs them is
                                     MAIL_OTHER */
    PyObject *attachments;        /* a list, or NULL */
    PlainAttachment plain[MOST_ATTACHMENTS]; /* without helpers: the first of them */
    int n_plain;
    unsigned char *text;
    size_t size, capacity;
    bool started;   /* whether there is a text, be it empty */
    bool truncated; /* whether parts were left out */
} MailReader;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Read a mail; the text that the reader has is written over. MAIL_OTHER: it goes over a limit, or is unusual. */
MailStatus read_whole(MailReader *r, const char *data, Py_ssize_t size, const MailLimits *limits, MailHead *head);

/* Unfold a subject as decode_header does; how many bytes it is, no more than it was, -1 where there may be encoded
 * words. */
Py_ssize_t unfold_subject(Span value, unsigned char *out);

/* A tuple of objects, which it takes over; NULL where one of them is, for an error of Python's. */
PyObject *tuple_of(PyObject **items, int n);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
