/* The common case of Operator.prepare: keyword arguments to a C call, without a dict on the way.
 *
 * phase_one(parts) makes a callable that takes the arguments of an operator by name. Values that C gets as they are
 * (open tensors and lists, numbers, known strings, None) are put in C order and the function is called; anything
 * else, and whatever cffi refuses to convert, is left to the general way in Python, which explains itself.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

/* What a callable knows, as a tuple. */
enum {
    FUNCTION,     /* the C function */
    INDEX,        /* dict: name -> position in C order */
    DEFAULTS,     /* tuple: what stands for an argument that is not given */
    KINDS,        /* tuple: types whose attribute _handle is the argument; the most frequent first */
    STRINGS,      /* dict: str -> char array */
    NULL_POINTER, /* what stands for None */
    SPARE,        /* list of (workspace size, executor) out-parameters that are free */
    FINISH,       /* finish(status, names, values, out-parameters), called after the function */
    GENERAL,      /* the general way: takes the same arguments */
    PARTS
};

static PyObject *handle_name;

static PyObject *part(PyObject *self, int index) { return PyTuple_GetItem(self, index); }

static PyObject *own(PyObject *object) {
    Py_XINCREF(object);
    return object;
}

/* What C gets for a value; NULL, with or without an exception, if that takes more thought. */
static PyObject *plain(PyObject *self, PyObject *value) {
    PyObject *type = (PyObject *)Py_TYPE(value), *kinds = part(self, KINDS);
    if (type == PyTuple_GetItem(kinds, 0)) return PyObject_GetAttr(value, handle_name);
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value)) return own(value);
    if (PyUnicode_CheckExact(value)) return own(PyDict_GetItemWithError(part(self, STRINGS), value));
    if (value == Py_None) return own(part(self, NULL_POINTER));
    for (Py_ssize_t i = 1; i < PyTuple_Size(kinds); ++i) {
        if (type == PyTuple_GetItem(kinds, i)) return PyObject_GetAttr(value, handle_name);
    }
    return NULL;
}

/* The arguments in C order; NULL, with or without an exception, if not all of them are plain. */
static PyObject *in_c_order(PyObject *self, PyObject *const *values, PyObject *names, PyObject *cells) {
    PyObject *defaults = part(self, DEFAULTS), *index = part(self, INDEX);
    Py_ssize_t operands = PyTuple_Size(defaults), given = names == NULL ? 0 : PyTuple_Size(names);
    PyObject *row = PyTuple_New(operands + 2);
    for (Py_ssize_t i = 0; row != NULL && i < given; ++i) {
        PyObject *position = PyDict_GetItemWithError(index, PyTuple_GetItem(names, i));
        PyObject *argument = position == NULL ? NULL : plain(self, values[i]);
        if (argument == NULL) Py_CLEAR(row);
        else PyTuple_SetItem(row, PyLong_AsSsize_t(position), argument);
    }
    for (Py_ssize_t i = 0; row != NULL && i < operands; ++i) {
        if (PyTuple_GetItem(row, i) == NULL) PyTuple_SetItem(row, i, own(PyTuple_GetItem(defaults, i)));
    }
    if (row != NULL) {
        PyTuple_SetItem(row, operands, own(PyTuple_GetItem(cells, 0)));
        PyTuple_SetItem(row, operands + 1, own(PyTuple_GetItem(cells, 1)));
    }
    return row;
}

static PyObject *general(PyObject *self, PyObject *const *values, Py_ssize_t positional, PyObject *names) {
    PyObject *arguments = PyTuple_New(positional), *keywords = PyDict_New(), *result = NULL;
    Py_ssize_t given = names == NULL ? 0 : PyTuple_Size(names);
    int failed = arguments == NULL || keywords == NULL;
    for (Py_ssize_t i = 0; !failed && i < positional; ++i) PyTuple_SetItem(arguments, i, own(values[i]));
    for (Py_ssize_t i = 0; !failed && i < given; ++i) {
        failed = PyDict_SetItem(keywords, PyTuple_GetItem(names, i), values[positional + i]);
    }
    if (!failed) result = PyObject_Call(part(self, GENERAL), arguments, keywords);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return result;
}

/* The last of the free out-parameters; NULL without an exception if there are none. */
static PyObject *take_cells(PyObject *spare) {
    Py_ssize_t count = PyList_Size(spare);
    if (count == 0) return NULL;
    PyObject *cells = own(PyList_GetItem(spare, count - 1));
    if (PyList_SetSlice(spare, count - 1, count, NULL) < 0) Py_CLEAR(cells);
    return cells;
}

static PyObject *finish(PyObject *self, PyObject *status, PyObject *const *values, PyObject *names, PyObject *cells) {
    Py_ssize_t given = names == NULL ? 0 : PyTuple_Size(names);
    PyObject *kept = PyTuple_New(given), *result = NULL;
    for (Py_ssize_t i = 0; kept != NULL && i < given; ++i) PyTuple_SetItem(kept, i, own(values[i]));
    if (kept != NULL) {
        PyObject *known = names == NULL ? kept : names; /* without arguments, both are the empty tuple */
        result = PyObject_CallFunctionObjArgs(part(self, FINISH), status, known, kept, cells, NULL);
    }
    Py_XDECREF(kept);
    return result;
}

static PyObject *call(PyObject *self, PyObject *const *values, Py_ssize_t positional, PyObject *names) {
    PyObject *cells = positional == 0 ? take_cells(part(self, SPARE)) : NULL;
    PyObject *row = cells == NULL ? NULL : in_c_order(self, values, names, cells);
    PyObject *status = row == NULL ? NULL : PyObject_Call(part(self, FUNCTION), row, NULL);
    PyObject *result = NULL;
    Py_XDECREF(row);
    if (status != NULL) {
        result = finish(self, status, values, names, cells);
        Py_DECREF(status);
    } else if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError) ||
               PyErr_ExceptionMatches(PyExc_OverflowError) || PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear(); /* the function was not called */
        result = general(self, values, positional, names);
    }
    Py_XDECREF(cells);
    return result;
}

static PyMethodDef callable = {
    "prepare", (PyCFunction)(void (*)(void))call, METH_FASTCALL | METH_KEYWORDS,
    "Phase one of an operator; see cann_mla.Operator.prepare."};

static PyObject *phase_one(PyObject *module, PyObject *parts) {
    (void)module;
    if (!PyTuple_Check(parts) || PyTuple_Size(parts) != PARTS) {
        PyErr_Format(PyExc_TypeError, "phase_one takes a tuple of %d parts", PARTS);
        return NULL;
    }
    return PyCFunction_New(&callable, parts);
}

static PyMethodDef methods[] = {
    {"phase_one", phase_one, METH_O, "Make the callable for the parts of an operator."}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_phase_one", "Keyword arguments to a C call.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__phase_one(void) {
    handle_name = PyUnicode_InternFromString("_handle");
    return handle_name == NULL ? NULL : PyModule_Create(&definition);
}
