/* Columns of programs being written, compiled: the order in which instructions begin, and what they wait for when they
 * get other positions. Functions are called as those of scheduler/list_scheduling.py and scheduler/waits.py that they
 * stand for, and return the same. What is left to Python is refused with OverflowError: times below 0 or beyond 64
 * bits, waits for what comes later, layers that do not follow each other, numbers of units beyond those of works.
 * Columns are read as tuples: nobody changes them meanwhile.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "order.h"

/* ---- what instructions wait for ---- */

/* Return a tuple of whole numbers, which the collector of garbage need not look into. */
static PyObject *row_of(const long *numbers, Py_ssize_t count) {
    PyObject *row = PyTuple_New(count);
    for (Py_ssize_t n = 0; row && n < count; n++) {
        PyObject *number = PyLong_FromLong(numbers[n]);
        if (!number) Py_CLEAR(row);
        else PyTuple_SET_ITEM(row, n, number);
    }
    if (row && count) PyObject_GC_UnTrack(row);
    return row;
}

typedef struct { long *numbers; Py_ssize_t count, room; } Row;

/* Append a number. */
static int append(Row *row, long number) {
    if (row->count == row->room) {
        Py_ssize_t room = 2 * row->room + 16;
        long *numbers = realloc(row->numbers, (size_t)room * sizeof(long));
        if (!numbers) { PyErr_NoMemory(); return -1; }
        row->numbers = numbers;
        row->room = room;
    }
    row->numbers[row->count++] = number;
    return 0;
}

/* Append a number that is not there yet. */
static int add(Row *row, long number) {
    for (Py_ssize_t n = 0; n < row->count; n++) if (row->numbers[n] == number) return 0;
    return append(row, number);
}

/* Add what lies outside of a fragment: `number` stands for it. */
static int add_outside(Row *row, PyObject *outside, long number) {
    if (-2 - number < 0 || -2 - number >= PyList_GET_SIZE(outside)) {
        PyErr_SetString(PyExc_IndexError, "nothing lies there");
        return -1;
    }
    PyObject *there = PySequence_Fast(PyList_GET_ITEM(outside, -2 - number), "not a sequence");
    if (!there) return -1;
    int failed = 0;
    for (Py_ssize_t n = 0; !failed && n < PySequence_Fast_GET_SIZE(there); n++) {
        long position = PyLong_AsLong(PySequence_Fast_GET_ITEM(there, n));
        failed = (position == -1 && PyErr_Occurred()) || add(row, position);
    }
    Py_DECREF(there);
    return failed;
}

PyDoc_STRVAR(relocated_doc,
    "relocated(rows, first, outside, entry)\n--\n\n"
    "Return what a fragment's instructions wait for where its first is at ``first``: `scheduler.waits.relocated`.");

static PyObject *columns_relocated(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *rows, *outside, *entry;
    long first;
    if (!PyArg_ParseTuple(args, "O!lO!O!", &PyTuple_Type, &rows, &first, &PyList_Type, &outside, &PyTuple_Type, &entry))
        return NULL;
    PyObject *found = PyList_New(PyTuple_GET_SIZE(rows));
    Row own = {0};
    for (Py_ssize_t place = 0; found && place < PyTuple_GET_SIZE(rows); place++) {
        PyObject *row = PyTuple_GET_ITEM(rows, place);
        own.count = 0;
        int failed = !PyTuple_Check(row);
        for (Py_ssize_t n = 0; !failed && n < PyTuple_GET_SIZE(row); n++) {
            long number = PyLong_AsLong(PyTuple_GET_ITEM(row, n));
            if (number < 0) failed = PyErr_Occurred() || add_outside(&own, outside, number);
            else if (first > LONG_MAX - number) {
                PyErr_SetString(PyExc_OverflowError, "too large a number");
                failed = 1;
            } else failed = add(&own, first + number);
        }
        PyObject *waits = failed ? NULL : own.count ? row_of(own.numbers, own.count) : Py_NewRef(entry);
        if (!waits) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "not a tuple of tuples");
            Py_CLEAR(found);
        } else PyList_SET_ITEM(found, place, waits);
    }
    free(own.numbers);
    return found;
}

PyDoc_STRVAR(reordered_doc,
    "reordered(rows, order)\n--\n\n"
    "Return rows of positions for instructions that come in another ``order``: `scheduler.waits.reordered`.");

static PyObject *columns_reordered(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given_rows, *given_order, *rows = NULL, *order = NULL, *found = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &given_rows, &PyList_Type, &given_order)) return NULL;
    if ((rows = PyList_AsTuple(given_rows))) order = PyList_AsTuple(given_order);
    Py_ssize_t count = order ? PyTuple_GET_SIZE(order) : 0;
    size_t room = (size_t)(count ? count : 1);
    long *place = calloc(room, sizeof(long)), *from = calloc(room, sizeof(long));
    Row own = {0};
    if (!place || !from) PyErr_NoMemory();
    else if (order && PyTuple_GET_SIZE(rows) == count) found = PyTuple_New(count);
    for (Py_ssize_t n = 0; found && n < count; n++) {
        from[n] = PyLong_AsLong(PyTuple_GET_ITEM(order, n));
        if (from[n] < 0 || from[n] >= count) Py_CLEAR(found);
        else place[from[n]] = (long)n;
    }
    for (Py_ssize_t n = 0; found && n < count; n++) {
        PyObject *row = PyTuple_GET_ITEM(rows, from[n]);
        own.count = 0;
        int failed = !PyTuple_Check(row);
        for (Py_ssize_t at = 0; !failed && at < PyTuple_GET_SIZE(row); at++) {
            long before = PyLong_AsLong(PyTuple_GET_ITEM(row, at));
            failed = before < 0 || before >= count || append(&own, place[before]);
        }
        PyObject *waits = failed ? NULL : row_of(own.numbers, own.count);
        if (!waits) Py_CLEAR(found);
        else PyTuple_SET_ITEM(found, n, waits);
    }
    if (!found && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "not an order of these rows");
    free(place);
    free(from);
    free(own.numbers);
    Py_XDECREF(rows);
    Py_XDECREF(order);
    return found;
}

static PyMethodDef functions[] = {
    {"begin_order", columns_begin_order, METH_VARARGS, begin_order_doc},
    {"relocated", columns_relocated, METH_VARARGS, relocated_doc},
    {"reordered", columns_reordered, METH_VARARGS, reordered_doc},
    {NULL, NULL, 0, NULL}};

#ifndef SOURCES
#define SOURCES "" /* what tells the files that this is built of from others: hw_models/in_c/__init__.py */
#endif

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "scheduler.in_c.columns", .m_doc = "Columns of programs being written, compiled.",
    .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_columns(void) {
    PyObject *found = PyModule_Create(&module);
    if (found && PyModule_AddStringConstant(found, "sources", SOURCES) < 0) Py_CLEAR(found);
    return found;
}
