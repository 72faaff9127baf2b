/* HTML to visible text: shared declarations of the scanner. */
#ifndef SUREBAYES_MAIL_HTML_H
#define SUREBAYES_MAIL_HTML_H

#include "ascii.h"
#include "html_tables.h"

enum { HTML_KEEP_HIDDEN = 1, HTML_ALT_TEXT = 2, HTML_LINK_TARGETS = 4 };
enum { LONG_HTML = 4096 }; /* minimum bytes to release the GIL */
/* maximum bytes of the visible text: &nGt; has five bytes and stands for six */
#define HTML_ROOM(size) ((size) + (size) / 5 + 16)

/* COLOUR_PAGE: the page's background, white unless a style sheet may change it */
enum { COLOUR_UNKNOWN = -1, COLOUR_UNSEEN = -2, COLOUR_PAGE = -3 };

/* display, visibility, font size, and the colours of text and background */
typedef struct {
    int gone, unseen, zero, letters, paper;
} Look;

typedef struct {
    int id, what;
    Span style, colour, paper, text, image, size, alt, href, src, rel;
    int hidden, marked, closed, face; /* the attribute hidden; a class or id; "/>"; the attribute face */
} Tag;

/* classes of bytes: 1 white space, 2 ends a tag's name, 4 ends an attribute's name, 8 special in text */

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

extern const unsigned char html_bytes[256];

static inline int is_html_space(unsigned char c)
{
    return html_bytes[c] & 1;
}

/* Fill the table of elements, once per process. */
void fill_element_slots(void);

/* The character of the reference at p (an '&'), the second one if there are two (else 0), and its end; -1 if it isn't a
 * reference. */
int reference_at(const unsigned char *p, const unsigned char *end, int in_attribute, const unsigned char **stop,
                 int *second);

/* Derive an element's look from its parent's. */
void apply_tag(Look *look, const Tag *tag);

/* Write the visible text of HTML in UTF-8 to `out`, which has room for HTML_ROOM(size); return its size, -1 without
 * memory. */
Py_ssize_t html_visible(const unsigned char *data, Py_ssize_t size, int flags, unsigned char *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
