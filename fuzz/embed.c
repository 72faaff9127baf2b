/* libFuzzer around an embedded Python that has the kernel built in, instrumented: coverage guides the fuzzer through
 * the C code, and check() of the module named by SUREBAYES_FUZZ (kernel_cases, message_cases) says what must hold. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

PyMODINIT_FUNC PyInit__text(void);
PyMODINIT_FUNC PyInit__mail(void);
PyMODINIT_FUNC PyInit__pool(void);

static PyObject *check;

static void stop(const char *why)
{
    fprintf(stderr, "fuzz: %s\n", why);
    if (PyErr_Occurred())
        PyErr_Print();
    abort();
}

static PyObject *start(void)
{
    const char *name = getenv("SUREBAYES_FUZZ");
    if (PyImport_AppendInittab("surebayes.kernels._text", PyInit__text) < 0 ||
        PyImport_AppendInittab("surebayes.kernels._mail", PyInit__mail) < 0 ||
        PyImport_AppendInittab("surebayes.kernels._pool", PyInit__pool) < 0)
        stop("no memory for the module table");
    Py_InitializeEx(0);
    PyObject *module = PyImport_ImportModule(name ? name : "kernel_cases");
    PyObject *function = module ? PyObject_GetAttrString(module, "check") : NULL;
    if (!function)
        stop("can't import the cases; is PYTHONPATH set to src and fuzz?");
    Py_XDECREF(module);
    return function;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!check)
        check = start();
    PyObject *result = PyObject_CallFunction(check, "y#", (const char *)data, (Py_ssize_t)size);
    if (!result)
        stop("check failed");
    Py_DECREF(result);
    return 0;
}
