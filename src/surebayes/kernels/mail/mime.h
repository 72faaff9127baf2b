/* Parsing of complete messages. */
#ifndef SUREBAYES_MAIL_MIME_H
#define SUREBAYES_MAIL_MIME_H

#include "header.h"
#include "header_tables.h"
#include "content_type.h"

typedef enum { MAIL_READ, MAIL_OTHER, MAIL_ERROR } MailStatus;

typedef struct {
    Py_ssize_t bytes, parts, depth, headers, header_length, decoded;
} MailLimits;

/* The input of attachment tokens: the start of the type, and the end of the name after the last dot. */
typedef struct {
    char type[60], ending[12];
    size_t type_size, ending_size;
    bool has_ending;
} PlainAttachment;

typedef struct {
    const unsigned char *base;
    Py_ssize_t parts, boundaries, depth, room, longest;
    int flags;
    PyObject *fallback, *helpers; /* borrowed; without helpers the GIL isn't held, and a message that needs them is
                                         MAIL_OTHER */
    PyObject *attachments;        /* a list, or NULL */
    PlainAttachment plain[MOST_ATTACHMENTS]; /* without helpers: the first of them */
    int n_plain;
    unsigned char *text;
    size_t size, capacity;
    bool started;   /* whether there is a text, even an empty one */
    bool truncated; /* whether parts were left out */
} MailReader;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Read a message, and overwrite the reader's text. MAIL_OTHER if it exceeds a limit or is unusual. */
MailStatus read_whole(MailReader *r, const char *data, Py_ssize_t size, const MailLimits *limits, MailHead *head);

/* Unfold a subject like decode_header; return its size, which never grows, or -1 if it may have encoded words. */
Py_ssize_t unfold_subject(Span value, unsigned char *out);

/* A tuple that takes over its objects; NULL, with Python's error, if one of them is NULL. */
PyObject *tuple_of(PyObject **items, int n);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
