/* What a part is: the type, the character set and the boundary that its Content-Type says. */
#ifndef SUREBAYES_MAIL_KIND_H
#define SUREBAYES_MAIL_KIND_H

#include "decoding.h"

typedef enum { PART_TEXT, PART_HTML, PART_MULTIPART, PART_DIGEST, PART_MESSAGE, PART_OTHER } PartType;

typedef struct {
    PartType type;
    MailSet set;
    Span boundary;
} Kind;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* What a name of a type in lower case stands for. */
PartType part_type(const char *name, Py_ssize_t size);

/* Read a Content-Type in its plain form, as content_kind of headers.py does; false where it isn't that, or names
 * another set than the few that most mail is in. */
bool plain_kind(Span value, Kind *kind);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
