/* Says which lines of Python lead to a call of the simulator, for what it reports.
 *
 * install(setter, package, library) gives the simulator the function locate(), by the address of its
 * cannMlaSimSetLocator. Frames inside the folder `package` are skipped, and those of Python's own library, so that the
 * user's line comes first. The simulator calls locate() in any thread, often, and with its own locks held: it must be
 * quick and run no Python code.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef size_t (*Locator)(const char **places, size_t room, int32_t *inside);
typedef void (*Setter)(Locator);

enum Whose { PACKAGE, LIBRARY, SITE, USER };

/* One point of a code object. Both the code and the text live for ever. */
struct Point {
    PyObject *code;
    long instruction;
    const char *text;
    enum Whose whose;
};

static struct {
    struct Point *points; /* open addressing; a power of two of them */
    size_t room, used;
} table;

static Setter set_locator;
static char *package_folder, *library_folder;
static PyObject *f_back, *f_lasti; /* descriptors of the frame type */
static descrgetfunc read_descriptor;

/* An attribute of a frame, without the search for it. */
static PyObject *attribute_of(PyObject *descriptor, PyObject *frame) {
    return read_descriptor(descriptor, frame, (PyObject *)Py_TYPE(frame));
}

static int starts_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

static enum Whose whose(const char *file) {
    if (starts_with(file, package_folder)) return PACKAGE;
    if (strstr(file, "/site-packages/") != NULL || strstr(file, "/dist-packages/") != NULL) return SITE;
    return starts_with(file, library_folder) || starts_with(file, "<frozen ") ? LIBRARY : USER;
}

static struct Point *slot(struct Point *points, size_t room, PyObject *code, long instruction) {
    uint64_t hash = ((uint64_t)(uintptr_t)code ^ (uint64_t)instruction * 0x9E3779B97F4A7C15u) * 0xFF51AFD7ED558CCDu;
    size_t i = (size_t)(hash >> 20) & (room - 1);
    while (points[i].code != NULL && (points[i].code != code || points[i].instruction != instruction)) {
        i = (i + 1) & (room - 1);
    }
    return &points[i];
}

static int grow(void) {
    size_t room = table.room == 0 ? 1024 : 2 * table.room;
    struct Point *points = calloc(room, sizeof *points);
    if (points == NULL) return 0;
    for (size_t i = 0; i < table.room; ++i) {
        struct Point *old = &table.points[i];
        if (old->code != NULL) *slot(points, room, old->code, old->instruction) = *old;
    }
    free(table.points);
    table.points = points;
    table.room = room;
    return 1;
}

/* The attribute of a code object as text, in memory of its own; NULL without an exception if it is none. */
static char *attribute(PyObject *code, const char *name) {
    PyObject *value = PyObject_GetAttrString(code, name);
    PyObject *bytes = value == NULL ? NULL : PyUnicode_AsEncodedString(value, "utf-8", "backslashreplace");
    char *text = bytes == NULL ? NULL : strdup(PyBytes_AsString(bytes));
    Py_XDECREF(value);
    Py_XDECREF(bytes);
    PyErr_Clear();
    return text;
}

/* "file.py:12 in name" */
static int describe(struct Point *point, PyObject *frame, PyObject *code) {
    char *file = attribute(code, "co_filename"), *name = attribute(code, "co_name"), *text = NULL;
    if (file != NULL && name != NULL) {
        size_t length = strlen(file) + strlen(name) + 32;
        text = malloc(length);
        if (text != NULL) {
            PyOS_snprintf(text, length, "%s:%d in %s", file, PyFrame_GetLineNumber((PyFrameObject *)frame), name);
            point->whose = whose(file);
        }
    }
    free(file);
    free(name);
    point->text = text;
    return text != NULL;
}

/* Where a frame is; a point without text if memory has run out. */
static struct Point point_of(PyObject *frame) {
    struct Point found = {NULL, 0, NULL, USER};
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    PyObject *instruction = attribute_of(f_lasti, frame);
    found.instruction = instruction == NULL ? -1 : PyLong_AsLong(instruction);
    Py_XDECREF(instruction);
    PyErr_Clear();
    if (2 * table.used < table.room || grow()) {
        struct Point *known = slot(table.points, table.room, code, found.instruction);
        if (known->code == NULL && describe(&found, frame, code)) {
            found.code = code;
            Py_INCREF(code);
            *known = found;
            ++table.used;
        } else {
            found = *known;
        }
    }
    Py_DECREF(code);
    return found;
}

/* Up to `room` places of the user; those of the package where there is no other. */
static size_t walk(const char **places, size_t room, int32_t *inside) {
    size_t count = 0;
    enum Whose outermost = PACKAGE; /* of the places so far */
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    for (int innermost = 1; frame != NULL && frame != Py_None && count < room; innermost = 0) {
        struct Point point = point_of(frame);
        if (innermost) *inside = point.whose == PACKAGE;
        if (point.text != NULL) {
            if (point.whose == SITE && outermost == USER) break; /* the program's framework: a test runner, say */
            if (point.whose > LIBRARY) {
                if (outermost == PACKAGE) count = 0;
                outermost = point.whose;
                places[count++] = point.text;
            } else if (point.whose == PACKAGE && outermost == PACKAGE && count + 1 < room) {
                places[count++] = point.text;
            }
        }
        PyObject *caller = attribute_of(f_back, frame);
        Py_DECREF(frame);
        frame = caller;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    return count;
}

static size_t locate(const char **places, size_t room, int32_t *inside) {
    *inside = 0;
    if (PyGILState_GetThisThreadState() == NULL) return 0; /* not a thread of Python's */
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    int collecting = PyGC_Disable(); /* a finaliser would call back into the simulator */
    size_t count = walk(places, room, inside);
    if (collecting) PyGC_Enable();
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
    return count;
}

static PyObject *install(PyObject *module, PyObject *arguments) {
    unsigned long long setter;
    const char *package, *library;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Kss", &setter, &package, &library)) return NULL;
    free(package_folder);
    free(library_folder);
    package_folder = strdup(package);
    library_folder = strdup(library);
    if (package_folder == NULL || library_folder == NULL) return PyErr_NoMemory();
    set_locator = (Setter)(uintptr_t)setter;
    set_locator(locate);
    Py_RETURN_NONE;
}

static PyObject *uninstall(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    if (set_locator != NULL) set_locator(NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"install", install, METH_VARARGS,
     "install(setter, package, library): tell the simulator of Python's lines; both folders end in a slash."},
    {"uninstall", uninstall, METH_NOARGS, "Take it back, before the interpreter ends."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_locator", "Lines of Python for the simulator's reports.", -1, methods, NULL, NULL, NULL,
    NULL};

PyMODINIT_FUNC PyInit__locator(void) {
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* of whoever imports this */
    if (frame == NULL) {
        PyErr_SetString(PyExc_ImportError, "_locator can only be imported by Python code");
        return NULL;
    }
    f_back = PyObject_GetAttrString((PyObject *)Py_TYPE(frame), "f_back");
    f_lasti = PyObject_GetAttrString((PyObject *)Py_TYPE(frame), "f_lasti");
    if (f_back == NULL || f_lasti == NULL) return NULL;
    read_descriptor = (descrgetfunc)PyType_GetSlot(Py_TYPE(f_back), Py_tp_descr_get);
    return PyModule_Create(&definition);
}
