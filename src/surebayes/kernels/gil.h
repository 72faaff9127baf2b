/* Release of the GIL, for work that takes longer than the release itself. */
#ifndef SUREBAYES_GIL_H
#define SUREBAYES_GIL_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>
#include <stddef.h>

/* Size of a single document, in bytes or columns, below which the GIL is kept: handing it to another thread and back
 * takes longer than the work, and a server would do so a dozen times per short message. */
#define SHORT_DOCUMENT 65536

/* Release the GIL for work on documents of this number and total size; NULL if it is kept. */
static inline PyThreadState *release_gil(size_t documents, size_t size)
{
    return documents <= 1 && size < SHORT_DOCUMENT ? NULL : PyEval_SaveThread();
}

/* Take the GIL again if it was released. */
static inline void restore_gil(PyThreadState *thread)
{
    if (thread)
        PyEval_RestoreThread(thread);
}

#endif
