/* Character classes and lower case, from the running Python. */
#ifndef SUREBAYES_TEXT_UNICODE_H
#define SUREBAYES_TEXT_UNICODE_H

#include "../utf8.h"

/* Properties of 256 code points, from the running Python. A character is looked up when it first occurs, so the kernel
 * agrees with Python's re and str.lower() for any version of Unicode, and start-up costs nothing. A lookup costs a
 * third of a microsecond, once per process. */
enum { WORD = 1, SPACE = 2, PYTHON_LOWER = 4, KNOWN = 8 };
enum { PAGES = 0x110000 / 256 };

typedef struct {
    uint8_t flags[256];
    uint8_t lower[256][4]; /* the lower-case letter in UTF-8, of the same length as the letter */
} Page;

/* Flags are written with the GIL, after the lower case, and read without it. */
#if defined(__GNUC__)
#define LOAD_FLAGS(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define STORE_FLAGS(p, value) __atomic_store_n(p, value, __ATOMIC_RELEASE)
#else
#define LOAD_FLAGS(p) (*(const volatile uint8_t *)(p))
#define STORE_FLAGS(p, value) (*(volatile uint8_t *)(p) = (value))
#endif

typedef struct State State;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* str.method() as 0 or 1; -1 with an exception. */
int ask(PyObject *text, PyObject *method);

/* Look a character up in Python unless its properties are known; return its page, or NULL with an exception. Needs the
 * GIL. */
const Page *learn_character(State *state, uint32_t c);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
