/* What the running Python says about characters. */
#ifndef SUREBAYES_TEXT_UNICODE_H
#define SUREBAYES_TEXT_UNICODE_H

#include "../utf8.h"

/* What the running Python says about 256 code points; filled when a document first needs it, so the kernel always
 * agrees with Python's re and str.lower() whatever version of Unicode they have, and start-up costs nothing. */
enum { WORD = 1, SPACE = 2, PYTHON_LOWER = 4 };
enum { PAGES = 0x110000 / 256 };

typedef struct {
    uint8_t flags[256];
    uint8_t lower[256][4]; /* the lower-case letter in UTF-8, of the same length as the letter */
} Page;

typedef struct State State;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* str.method() as 0 or 1; -1 with an exception. */
int ask(PyObject *text, PyObject *method);

/* Ask Python about a page of 256 code points. With the GIL. */
Page *learn_page(State *state, uint32_t number);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
