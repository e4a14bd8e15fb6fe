/* List scheduling and relocation of a program's columns, compiled. Functions are named as those of list_scheduling.py
 * and relocation.py in scheduler/programs that they port, take a pair of columns in place of rows, and return the same.
 * Unsupported input sets OverflowError, and Python does the work instead: times below 0 or beyond 64 bits, waits for
 * later instructions, layers out of order, numbers of units above the number of works.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../hw_models/in_c/columns.h"
#include "../../hw_models/in_c/module.h"

/* ---- new columns ---- */

static int refused(PyObject *exception, const char *why) { PyErr_SetString(exception, why); return -1; }

/* Append a number to a column with room for it; set an exception if it exceeds 32 bits. */
static void append(Made *column, long long number) {
    if (number < INT_MIN || number > INT_MAX) PyErr_SetString(PyExc_OverflowError, "too large a number");
    else column->items[column->count++] = (int)number;
}

/* Return rows to Python as a pair of columns, or NULL with an exception set. */
static PyObject *rows_of(const Made *first, const Made *items) {
    PyObject *begins = column_of(first), *numbers = begins ? column_of(items) : NULL;
    if (numbers) return Py_BuildValue("(NN)", begins, numbers);
    Py_XDECREF(begins);
    return NULL;
}

#include "order.h"
#include "prefetch.h"

/* ---- dependencies of instructions ---- */

/* Append a number, for which there is room, unless the row that begins at `begin` has it already. */
static void add(Made *items, Py_ssize_t begin, long long number) {
    for (Py_ssize_t n = begin; n < items->count; n++) if (items->items[n] == number) return;
    append(items, number);
}

/* Add the numbers of a Python tuple to the row that begins at `begin`; return 0, or -1 with an exception set. */
static int add_all(Made *items, Py_ssize_t begin, PyObject *row) {
    if (!PyTuple_Check(row)) { PyErr_SetString(PyExc_TypeError, "not a tuple"); return -1; }
    if (reserve(items, PyTuple_GET_SIZE(row))) return -1;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(row) && !PyErr_Occurred(); n++) {
        long number = PyLong_AsLong(PyTuple_GET_ITEM(row, n));
        if (!PyErr_Occurred()) add(items, begin, number);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Add the numbers of a borrowed row to the row that begins at `begin`; return 0, or -1 with an exception set. */
static int add_row(Made *items, Py_ssize_t begin, const LentRows *rows, int row) {
    int from = rows->first.items[row], to = rows->first.items[row + 1];
    if (reserve(items, to - from)) return -1;
    for (int at = from; at < to; at++) add(items, begin, rows->items.items[at]);
    return 0;
}

PyDoc_STRVAR(relocated_doc,
    "relocated(first, items, position, outside_first, outside_items, entry)\n--\n\n"
    "Return the dependencies of a fragment's instructions once it is placed at ``position``:\n"
    "`scheduler.programs.relocation.Relocation.relocated`.");

static PyObject *columns_relocated(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given_first, *given_items, *outside_first, *outside_items, *entry, *found = NULL;
    int position;
    if (!PyArg_ParseTuple(args, "OOiOOO!", &given_first, &given_items, &position, &outside_first, &outside_items,
                          &PyTuple_Type, &entry)) return NULL;
    LentRows rows = {0}, outside = {0};
    Made first = {0}, items = {0};
    int failed = lend_rows(outside_first, outside_items, 0, INT_MAX, &outside)
        || lend_rows(given_first, given_items, -1 - outside.count, INT_MAX, &rows) || reserve(&first, rows.count + 1)
        || reserve(&items, rows.items.count);
    if (!failed) append(&first, 0);
    for (int n = 0; !failed && n < rows.count; n++) {
        Py_ssize_t begin = items.count;
        for (int at = rows.first.items[n]; !failed && at < rows.first.items[n + 1]; at++) {
            int number = rows.items.items[at];
            if (number < -1) failed = add_row(&items, begin, &outside, -2 - number);
            else if (number < 0) failed = refused(PyExc_IndexError, "nothing lies there");
            else if (!(failed = reserve(&items, 1))) add(&items, begin, (long long)position + number);
        }
        if (!failed && items.count == begin) failed = add_all(&items, begin, entry);
        append(&first, items.count);
        failed = failed || PyErr_Occurred();
    }
    if (!failed) found = rows_of(&first, &items);
    free(first.items);
    free(items.items);
    give_back_rows(&rows);
    give_back_rows(&outside);
    return found;
}

/* ---- other orders ---- */

PyDoc_STRVAR(reordered_doc,
    "reordered(first, items, order, of_positions)\n--\n\n"
    "Return the rows permuted by ``order``; with ``of_positions``, their numbers are positions and are mapped too:\n"
    "`scheduler.programs.relocation.Relocation.reordered`.");

static PyObject *columns_reordered(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given_first, *given_items, *given_order, *found = NULL;
    int of_positions;
    if (!PyArg_ParseTuple(args, "OOOp", &given_first, &given_items, &given_order, &of_positions)) return NULL;
    LentRows rows = {0};
    Lent order = {0};
    Made first = {0}, items = {0}, places = {0};
    int failed = lend_rows(given_first, given_items, 0, INT_MAX, &rows) || lend(given_order, &order)
        || check_range(&order, 0, rows.count) || (of_positions && check_range(&rows.items, 0, rows.count))
        || reserve(&first, order.count + 1) || reserve(&items, rows.items.count) || reserve(&places, rows.count);
    if (!failed && order.count != rows.count) failed = refused(PyExc_ValueError, "not an order of these");
    for (int n = 0; !failed && n < rows.count; n++) places.items[n] = n;
    for (int n = 0; !failed && n < order.count; n++) places.items[order.items[n]] = n;
    if (!failed) append(&first, 0);
    for (int n = 0; !failed && n < order.count; n++) {
        int begin = rows.first.items[order.items[n]], end = rows.first.items[order.items[n] + 1];
        failed = reserve(&items, end - begin);
        for (int at = begin; !failed && at < end; at++)
            append(&items, of_positions ? places.items[rows.items.items[at]] : rows.items.items[at]);
        append(&first, items.count);
    }
    if (!failed) found = rows_of(&first, &items);
    free(first.items);
    free(items.items);
    free(places.items);
    give_back_column(&order);
    give_back_rows(&rows);
    return found;
}

PyDoc_STRVAR(grouped_doc,
    "grouped(numbers, count)\n--\n\n"
    "Return for each number below ``count`` the places where it occurs:\n"
    "`scheduler.programs.relocation.Relocation.grouped`.");

static PyObject *columns_grouped(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given, *found = NULL;
    int count;
    if (!PyArg_ParseTuple(args, "Oi", &given, &count)) return NULL;
    if (count < 0) { PyErr_SetString(PyExc_ValueError, "fewer than no rows"); return NULL; }
    Lent numbers = {0};
    Made first = {0}, items = {0};
    int failed = lend(given, &numbers) || check_range(&numbers, 0, count)
        || reserve(&first, (Py_ssize_t)count + 2) || reserve(&items, numbers.count);
    if (!failed) {
        for (int n = 0; n < count + 2; n++) first.items[n] = 0;
        for (int n = 0; n < numbers.count; n++) first.items[numbers.items[n] + 2]++;
        for (int n = 1; n < count + 2; n++) first.items[n] += first.items[n - 1];
        for (int n = 0; n < numbers.count; n++) items.items[first.items[numbers.items[n] + 1]++] = n;
        first.count = count + 1;
        items.count = numbers.count;
        found = rows_of(&first, &items);
    }
    free(first.items);
    free(items.items);
    give_back_column(&numbers);
    return found;
}

PyDoc_STRVAR(gathered_doc,
    "gathered(numbers, places)\n--\n\n"
    "Return the numbers at ``places``: `scheduler.programs.relocation.Relocation.gathered`.");

static PyObject *columns_gathered(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given, *given_places, *found = NULL;
    if (!PyArg_ParseTuple(args, "OO", &given, &given_places)) return NULL;
    Lent numbers = {0}, places = {0};
    Made made = {0};
    if (!lend(given, &numbers) && !lend(given_places, &places) && !check_range(&places, 0, numbers.count)
        && !reserve(&made, places.count)) {
        for (int n = 0; n < places.count; n++) append(&made, numbers.items[places.items[n]]);
        found = column_of(&made);
    }
    free(made.items);
    give_back_column(&numbers);
    give_back_column(&places);
    return found;
}

PyDoc_STRVAR(shifted_doc,
    "shifted(numbers, by)\n--\n\n"
    "Return the numbers plus ``by``: `scheduler.programs.relocation.Relocation.shifted`.");

static PyObject *columns_shifted(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given, *found = NULL;
    int by;
    if (!PyArg_ParseTuple(args, "Oi", &given, &by)) return NULL;
    Lent numbers = {0};
    Made made = {0};
    if (!lend(given, &numbers) && !reserve(&made, numbers.count)) {
        for (int n = 0; n < numbers.count; n++) append(&made, (long long)numbers.items[n] + by);
        found = column_of(&made);
    }
    free(made.items);
    give_back_column(&numbers);
    return found;
}

static PyMethodDef functions[] = {
    {"begin_order", columns_begin_order, METH_VARARGS, begin_order_doc},
    {"gathered", columns_gathered, METH_VARARGS, gathered_doc},
    {"grouped", columns_grouped, METH_VARARGS, grouped_doc},
    {"relocated", columns_relocated, METH_VARARGS, relocated_doc},
    {"reordered", columns_reordered, METH_VARARGS, reordered_doc},
    {"shifted", columns_shifted, METH_VARARGS, shifted_doc},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "dsascape.scheduler.in_c.columns",
    .m_doc = "List scheduling and relocation of a program's columns, compiled.", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_columns(void) {
    if (PyType_Ready(&buffer_type) < 0) return NULL;
    PyObject *found = import_array_type() ? NULL : module_of(&module);
    if (found && PyModule_AddObjectRef(found, "PrefetchBuffer", (PyObject *)&buffer_type) < 0) Py_CLEAR(found);
    return found;
}
