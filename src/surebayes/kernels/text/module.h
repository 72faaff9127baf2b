/* The types and functions of the module, each defined in the file of its name. */
#ifndef SUREBAYES_TEXT_MODULE_H
#define SUREBAYES_TEXT_MODULE_H

#include "../common.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

extern PyType_Spec block_spec, analyzer_spec, vocabulary_spec, scorer_spec;
extern PyMethodDef counting_functions[], placing_functions[], word_views_functions[];

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
