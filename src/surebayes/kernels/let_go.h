/* Letting other threads run meanwhile, where the work is long enough to be worth it. */
#ifndef SUREBAYES_LET_GO_H
#define SUREBAYES_LET_GO_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>
#include <stddef.h>

/* Bytes or columns of a document below which Python's lock is kept for it: it is done in less time than two threads
   take to hand the lock to each other and back, which a server with many short mails would do a dozen times for each.
 */
#define SHORT_DOCUMENT 65536

/* Give the lock up for so many documents of this size together, or don't; what comes back goes to `run_again`. */
static inline PyThreadState *let_others_run(size_t documents, size_t size)
{
    return documents <= 1 && size < SHORT_DOCUMENT ? NULL : PyEval_SaveThread();
}

static inline void run_again(PyThreadState *let_go)
{
    if (let_go)
        PyEval_RestoreThread(let_go);
}

#endif
