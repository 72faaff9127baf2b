/* The functions of the module, each defined in the file of its name. */
#ifndef SUREBAYES_MAIL_MODULE_H
#define SUREBAYES_MAIL_MODULE_H

#include "../common.h"

enum { LONGEST_FROM_LINE = 1000 }; /* bytes */

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

extern PyMethodDef html_functions[], header_functions[], fingerprint_functions[], mime_functions[],
    header_token_functions[], mailbox_functions[], batch_functions[];

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
