/* The GIL: released where the work is long enough for other threads to gain by it. */
#ifndef SUREBAYES_GIL_H
#define SUREBAYES_GIL_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>
#include <stddef.h>

/* Bytes or columns of a single document below which the GIL is kept: the work takes less time than two threads need to
 * hand the GIL over and back, which a server would do a dozen times for each short mail. */
#define SHORT_DOCUMENT 65536

/* Release the GIL for work on so many documents of this size together; NULL where it is kept. */
static inline PyThreadState *release_gil(size_t documents, size_t size)
{
    return documents <= 1 && size < SHORT_DOCUMENT ? NULL : PyEval_SaveThread();
}

/* Take the GIL again where it was released. */
static inline void restore_gil(PyThreadState *thread)
{
    if (thread)
        PyEval_RestoreThread(thread);
}

#endif
