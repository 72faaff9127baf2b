/* Decoding of a part to UTF-8: transfer encodings and character sets. */
#ifndef SUREBAYES_MAIL_DECODING_H
#define SUREBAYES_MAIL_DECODING_H

#include "ascii.h"

typedef enum { CODING_NONE, CODING_BASE64, CODING_QUOTED, CODING_OTHER } MailCoding;

/* The most common character sets (by Python's names); ASCII bytes are ASCII characters in all of them. Two are decoded
 * here, and so is undeclared text: as UTF-8 if it is valid, else as Windows-1252. */
typedef enum { SET_OTHER, SET_WITH_ASCII, SET_UNDECLARED, SET_WINDOWS, SET_UTF_8 } MailSet;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Whether a value starts with a word, in any case, after white space; reads a bounded number of bytes. */
bool value_starts(Span value, Py_ssize_t most, const char *word);

MailCoding mail_coding(Span value);
MailSet mail_set(PyObject *charset);
bool is_utf8(const unsigned char *p, Py_ssize_t size);

/* Convert bytes in one of the two sets to UTF-8, with U+FFFD as in Python's decoders with errors="replace"; `out` has
 * room for three times the size. */
Py_ssize_t widen(const unsigned char *p, Py_ssize_t size, MailSet set, unsigned char *out);

/* Flags: a byte beyond ASCII (1), a carriage return (2). */
int odd_bytes(const unsigned char *p, Py_ssize_t size);

/* Copy with \r\n replaced by \n; `out` has room for size + 16. */
Py_ssize_t copy_lines(const unsigned char *p, Py_ssize_t size, unsigned char *out);

/* Decode quoted-printable, like binascii.a2b_qp; the result is never longer. */
Py_ssize_t unquote_printable(const unsigned char *p, Py_ssize_t size, unsigned char *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
