/* Names of HTML elements, attributes and references.
 * Written by tools/kernel_tables.py: change that, or mail/html_tables.py. */
#ifndef SUREBAYES_MAIL_HTML_TABLES_H
#define SUREBAYES_MAIL_HTML_TABLES_H

/* clang-format off */
enum { HTML_NAME = 16, HTML_ELEMENTS = 109, HTML_REFERENCES = 2125, HTML_COLOURS = 148 };
enum { LONGEST_REFERENCE = 31, LONGEST_BARE_REFERENCE = 6 };

/* kinds of elements, by their effect on text */
enum {
    EL_BLOCK = 1, EL_CELL = 2, EL_VOID = 4, EL_RAW = 8, EL_SHOWN_RAW = 16, EL_RCDATA = 32, EL_HIDDEN = 64,
    EL_TABLE = 128, EL_PAGE = 256, EL_BREAK = 512, EL_LIST = 1024, EL_FORMAT = 2048, EL_BREAKOUT = 4096,
    EL_INTEGRATION = 8192, EL_UNDRAWN = 16384,
};

/* elements with an ID; the remaining ones have 100 + their place in the table, or 1000 + a hash of the name */
enum {
    ID_BODY = 1, ID_CAPTION = 2, ID_DD = 3, ID_DT = 4, ID_FONT = 5, ID_LI = 6, ID_OPTION = 7, ID_P = 8, ID_TABLE = 9,
    ID_TBODY = 10, ID_TD = 11, ID_TFOOT = 12, ID_TH = 13, ID_THEAD = 14, ID_TR = 15, ID_PLAINTEXT = 16, ID_A = 17,
    ID_BR = 18, ID_HEAD = 19, ID_LINK = 20, ID_MATH = 21, ID_SCRIPT = 22, ID_STYLE = 23, ID_SVG = 24, ID_TEMPLATE = 25,
};

/* of an element in SVG or MathML, not in the table */
enum { EL_FOREIGN = 32768 };

typedef struct { char name[HTML_NAME]; int what, id; } Element;
typedef struct { const char *name; int code, second, bare; } Reference; /* bare: also without a semicolon */
typedef struct { const char *name; int value; } Colour;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
/* each sorted by name */
extern const Element html_elements[HTML_ELEMENTS];
extern const Reference html_references[HTML_REFERENCES];
extern const unsigned short html_reference_starts[129]; /* the first name for each initial letter */
extern const Colour html_colours[HTML_COLOURS];

/* numeric references 0x80 to 0x9F: Windows-1252 */
extern const unsigned short html_c1[32];
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
/* clang-format on */

#endif
