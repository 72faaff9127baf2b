/* Iteration over the documents of a Python list, without the GIL. */
#ifndef SUREBAYES_TEXT_DOCUMENTS_H
#define SUREBAYES_TEXT_DOCUMENTS_H

#include "analysis.h"

typedef Status (*RowDone)(Workspace *ws, size_t index, void *context);

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Count every document of a list; calls `done` after each, without the GIL. */
int each_document(Workspace *ws, PyObject *documents, RowDone done, void *context);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
