/* HTML to visible text: what the files of the scanner share. */
#ifndef SUREBAYES_MAIL_HTML_H
#define SUREBAYES_MAIL_HTML_H

#include "ascii.h"
#include "html_tables.h"

enum { HTML_KEEP_HIDDEN = 1, HTML_ALT_TEXT = 2, HTML_LINK_TARGETS = 4 };
enum { LONG_HTML = 4096 }; /* bytes, from which on other threads may run meanwhile */
/* bytes that the visible text of so many bytes may have: &nGt; is five and stands for six */
#define HTML_ROOM(size) ((size) + (size) / 5 + 16)

/* COLOUR_PAGE: what is behind the page, white as long as no style sheet may say otherwise */
enum { COLOUR_UNKNOWN = -1, COLOUR_UNSEEN = -2, COLOUR_PAGE = -3 };

/* display, visibility, font size, and the colours of letters and of what is behind them */
typedef struct {
    int gone, unseen, zero, letters, paper;
} Look;

typedef struct {
    int id, what;
    Span style, colour, paper, text, image, size, alt, href, src, rel;
    int hidden, marked, closed, face; /* the attribute hidden; a class or id; "/>"; the attribute face */
} Tag;

/* what a byte does: 1 white space, 2 ends a tag's name, 4 ends an attribute's name, 8 needs care in text */

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

extern const unsigned char html_bytes[256];

static inline int is_html_space(unsigned char c)
{
    return html_bytes[c] & 1;
}

/* Fill the table of elements, once a process. */
void fill_element_slots(void);

/* The character that a reference at p (which is '&') stands for, a second one where there are two (else 0), and where
 * it ends; -1 if it is none. */
int reference_at(const unsigned char *p, const unsigned char *end, int in_attribute, const unsigned char **stop,
                 int *second);

/* Change the look of a parent into that of an element. */
void apply_tag(Look *look, const Tag *tag);

/* Write the visible text of HTML in UTF-8 to `out`, which has room for HTML_ROOM(size); how much it is, -1 without
 * memory. */
Py_ssize_t html_visible(const unsigned char *data, Py_ssize_t size, int flags, unsigned char *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
