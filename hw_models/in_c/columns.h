/* Columns of integers (hw_models/simulation/columns.py). Columns from Python are borrowed through the buffer protocol
 * and read in place; new columns are returned as array.array.
 */
#include <string.h>

typedef struct { const int *items; int count; Py_buffer view; } Lent;

/* Borrow a column; return 0, or -1 with an exception set. Either way give_back_column may be called on it. */
static int lend(PyObject *column, Lent *found) {
    if (PyObject_GetBuffer(column, &found->view, PyBUF_FORMAT | PyBUF_ND)) return -1;
    if (found->view.ndim != 1 || !found->view.format || strcmp(found->view.format, "i")) {
        PyErr_SetString(PyExc_TypeError, "not a column of whole numbers");
        return -1;
    }
    if (found->view.shape[0] > INT_MAX / 4) { PyErr_SetString(PyExc_OverflowError, "too long a column"); return -1; }
    found->items = found->view.buf;
    found->count = (int)found->view.shape[0];
    return 0;
}

/* Return 0 if every number of a column is in [least, most); else -1 with an exception set. */
static int check_range(const Lent *column, int least, int most) {
    int is_wrong = 0;
    for (int n = 0; n < column->count; n++) is_wrong |= column->items[n] < least || column->items[n] >= most;
    if (is_wrong) PyErr_SetString(PyExc_ValueError, "a number is out of range");
    return is_wrong ? -1 : 0;
}

/* Borrowed rows in compressed form: row n is items.items[first.items[n]] up to, not including, [first.items[n + 1]]. */
typedef struct { Lent first, items; int count; } LentRows;

/* Borrow rows whose numbers are in [least, most); return 0, or -1 with an exception set. */
static int lend_rows(PyObject *first, PyObject *items, int least, int most, LentRows *found) {
    if (lend(first, &found->first) || lend(items, &found->items) || check_range(&found->items, least, most)) return -1;
    found->count = found->first.count - 1;
    const int *begin = found->first.items;
    int is_wrong = found->count < 0 || begin[0] != 0 || begin[found->count] != found->items.count;
    for (int n = 0; !is_wrong && n < found->count; n++) is_wrong = begin[n] > begin[n + 1];
    if (is_wrong) PyErr_SetString(PyExc_ValueError, "rows do not follow each other");
    return is_wrong ? -1 : 0;
}

static void give_back_column(Lent *column) { PyBuffer_Release(&column->view); }

static void give_back_rows(LentRows *rows) { give_back_column(&rows->first); give_back_column(&rows->items); }

/* ---- new columns ---- */

static PyObject *array_type; /* array.array, set when the module is imported */

/* Import array.array; return 0, or -1 with an exception set. */
static int import_array_type(void) {
    PyObject *arrays = PyImport_ImportModule("array");
    array_type = arrays ? PyObject_GetAttrString(arrays, "array") : NULL;
    Py_XDECREF(arrays);
    return array_type ? 0 : -1;
}

typedef struct { int *items; Py_ssize_t count, room; } Made;

/* Reserve room for `more` further numbers; return 0, or -1 with an exception set. */
static int reserve(Made *column, Py_ssize_t more) {
    if (column->items && more <= column->room - column->count) return 0;
    if (more > INT_MAX / 4 - column->count) { PyErr_SetString(PyExc_OverflowError, "too long a column"); return -1; }
    Py_ssize_t room = 2 * (column->count + more) + 16;
    int *items = realloc(column->items, (size_t)room * sizeof(int));
    if (!items) { PyErr_NoMemory(); return -1; }
    column->items = items;
    column->room = room;
    return 0;
}

/* Return a column as array.array, or NULL if an exception is set. */
static PyObject *column_of(const Made *column) {
    if (PyErr_Occurred()) return NULL;
    Py_ssize_t size = column->count * (Py_ssize_t)sizeof(int);
    return PyObject_CallFunction(array_type, "sy#", "i", (const char *)column->items, size);
}
