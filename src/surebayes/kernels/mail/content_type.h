/* Content-Type of a part: type, character set and boundary. */
#ifndef SUREBAYES_MAIL_CONTENT_TYPE_H
#define SUREBAYES_MAIL_CONTENT_TYPE_H

#include "decoding.h"

typedef enum { PART_TEXT, PART_HTML, PART_MULTIPART, PART_DIGEST, PART_MESSAGE, PART_OTHER } PartType;

enum { LONGEST_NAME = 100 }; /* of a type or a character set */

typedef struct {
    PartType type;
    MailSet set;
    Span boundary;
    char name[LONGEST_NAME]; /* of the type, set by plain_content_type */
    size_t name_size;
} ContentType;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* The kind of a type, by its name in lower case. */
PartType part_type(const char *name, Py_ssize_t size);

/* Read a plain Content-Type, like content_kind of headers.py; false for any other form, and for a character set other
 * than the most common ones. */
bool plain_content_type(Span value, ContentType *kind);

/* Find the file name in Content-Disposition or Content-Type, like `filename` of headers.py; false if it isn't in plain
 * form. */
bool plain_filename(Span disposition, Span type, Span *name);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
