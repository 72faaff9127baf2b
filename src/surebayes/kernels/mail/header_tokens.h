/* Header tokens of mails that are plain ASCII there. */
#ifndef SUREBAYES_MAIL_HEADER_TOKENS_H
#define SUREBAYES_MAIL_HEADER_TOKENS_H

#include "mime.h"

typedef struct Tokens Tokens;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* What tokens are made in, one mail after the other. */
Tokens *tokens_open(void);
void tokens_close(Tokens *t);

/* Add the tokens of a header block and of a subject in UTF-8 to `out`, each after its size as uint16. Without Python's
 * lock: not `plain` where the caller's function would be needed. */
Status put_plain_tokens(Tokens *t, Span head, Span subject, const PlainAttachment *attachments, int n_attachments,
                        Py_ssize_t most, Py_ssize_t longest, Scratch *scratch, Scratch *out, bool *plain);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
