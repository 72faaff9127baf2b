/* Bytes of a part to UTF-8: transfer encodings and character sets. */
#ifndef SUREBAYES_MAIL_DECODING_H
#define SUREBAYES_MAIL_DECODING_H

#include "ascii.h"

typedef enum { CODING_NONE, CODING_BASE64, CODING_QUOTED, CODING_OTHER } MailCoding;

/* Character sets (as Python names them) in which ASCII bytes are ASCII letters: those most mail is in. Two have all
 * their letters here, and so has what nobody declared: UTF-8 if it is that, else Windows-1252. */
typedef enum { SET_OTHER, SET_WITH_ASCII, SET_UNDECLARED, SET_WINDOWS, SET_UTF_8 } MailSet;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Whether the first letters of a value, blanks before them skipped, are this word in lower case; only so many bytes are
 * looked at. */
bool value_starts(Span value, Py_ssize_t most, const char *word);

MailCoding mail_coding(Span value);
MailSet mail_set(PyObject *charset);
bool is_utf8(const unsigned char *p, Py_ssize_t size);

/* UTF-8 of bytes in one of the two sets, U+FFFD where Python's decoders with errors="replace" have one; `out` has room
 * for three times the size. */
Py_ssize_t widen(const unsigned char *p, Py_ssize_t size, MailSet set, unsigned char *out);

/* Whether there is a byte beyond ASCII (1), a carriage return (2). */
int odd_bytes(const unsigned char *p, Py_ssize_t size);

/* Copy with line ends of \r\n as \n; `out` has room for size + 16. */
Py_ssize_t copy_lines(const unsigned char *p, Py_ssize_t size, unsigned char *out);

/* Undo quoted-printable, as binascii.a2b_qp does; it never grows. */
Py_ssize_t unquote_printable(const unsigned char *p, Py_ssize_t size, unsigned char *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
