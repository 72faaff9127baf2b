/* Bytes of ASCII, and spans of bytes. */
#ifndef SUREBAYES_MAIL_ASCII_H
#define SUREBAYES_MAIL_ASCII_H

#include "../common.h"

/* A piece of the input; `at` is NULL if there is none. */
typedef struct {
    const unsigned char *at;
    Py_ssize_t size;
} Span;

/* A growing buffer. */
typedef struct {
    unsigned char *at;
    size_t size, room;
} Scratch;

static inline int is_letter(unsigned char c)
{
    return (unsigned)((c | 32) - 'a') < 26;
}

static inline int is_digit(unsigned char c)
{
    return (unsigned)(c - '0') < 10;
}

static inline unsigned char to_lower(unsigned char c)
{
    return (unsigned)(c - 'A') < 26 ? (unsigned char)(c | 32) : c;
}

static inline int hex_digit(unsigned char c)
{
    return is_digit(c) ? c - '0' : (unsigned)((c | 32) - 'a') < 6 ? (c | 32) - 'a' + 10 : -1;
}

/* ASCII white space, as in bytes.split. */
static inline bool is_blank(unsigned char c)
{
    return c == ' ' || (unsigned)(c - '\t') < 5;
}

#endif
