/* Header tokens of messages with a plain ASCII header. */
#ifndef SUREBAYES_MAIL_HEADER_TOKENS_H
#define SUREBAYES_MAIL_HEADER_TOKENS_H

#include "mime.h"

typedef struct Tokens Tokens;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Working memory for the tokens of successive messages. */
Tokens *tokens_open(void);
void tokens_close(Tokens *t);

/* Add the tokens of a header block and of a subject in UTF-8 to `out`, each after its size as uint16. Runs without the
 * GIL: `plain` becomes false if the caller's function would be needed. */
Status put_plain_tokens(Tokens *t, Span head, Span subject, const PlainAttachment *attachments, int n_attachments,
                        Py_ssize_t most, Py_ssize_t longest, Scratch *scratch, Scratch *out, bool *plain);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
