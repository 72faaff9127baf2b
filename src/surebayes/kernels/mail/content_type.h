/* What a part is: the type, the character set and the boundary that its Content-Type says. */
#ifndef SUREBAYES_MAIL_CONTENT_TYPE_H
#define SUREBAYES_MAIL_CONTENT_TYPE_H

#include "decoding.h"

typedef enum { PART_TEXT, PART_HTML, PART_MULTIPART, PART_DIGEST, PART_MESSAGE, PART_OTHER } PartType;

enum { LONGEST_NAME = 100 }; /* of a type or a character set */

typedef struct {
    PartType type;
    MailSet set;
    Span boundary;
    char name[LONGEST_NAME]; /* of the type, where plain_content_type has read it */
    size_t name_size;
} ContentType;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* What a name of a type in lower case stands for. */
PartType part_type(const char *name, Py_ssize_t size);

/* Read a Content-Type in its plain form, as content_kind of headers.py does; false where it isn't that, or names
 * another set than the few that most mail is in. */
bool plain_content_type(Span value, ContentType *kind);

/* Find the name that Content-Disposition or Content-Type gives a part, as `filename` of headers.py does; false where it
 * isn't in plain form. */
bool plain_filename(Span disposition, Span type, Span *name);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
