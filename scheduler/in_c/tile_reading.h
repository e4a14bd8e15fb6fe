/* Reading of labelled records: named tuples of scheduler/dsa/tiling/records.py, each by a table with the name and the
 * range of every field. Fields with other names raise TypeError, and a number out of range ValueError, so that no input
 * can lead to an access out of bounds or a division by zero.
 */

typedef enum { WHOLE, REAL, WHOLES, RECORDS } Kind;

typedef struct Record Record;

typedef struct {
    const char *name;
    Kind kind;
    size_t at, count_at; /* offsets in the struct; count_at: of the length of an array */
    double lowest, highest; /* lowest, highest: range of its numbers */
    Record *of; /* of which an array is */
} Field;

struct Record { const char *name; size_t size; int count; const Field *fields; PyTypeObject *checked; };

typedef struct Block { struct Block *next; int64_t numbers[]; } Block; /* memory of one array; all are freed together */

static const double BYTES = 9007199254740992.0; /* 2^53 */
enum { MOST_ITEMS = 1 << 20 };

static void free_blocks(Block *blocks) {
    for (Block *next; blocks; blocks = next) { next = blocks->next; free(blocks); }
}

/* Return zeroed memory; NULL with an exception set. */
static void *block_of(size_t count, size_t size, Block **blocks) {
    Block *found = calloc(1, sizeof(Block) + (count ? count : 1) * size);
    if (!found) { PyErr_NoMemory(); return NULL; }
    found->next = *blocks;
    *blocks = found;
    return found->numbers;
}

/* Return whether a named tuple has the record's fields in the record's order; else an exception is set. */
static int is_labelled(PyObject *given, Record *record) {
    if (Py_TYPE(given) == record->checked && PyTuple_GET_SIZE(given) == record->count) return 1;
    PyObject *names = PyTuple_Check(given) ? PyObject_GetAttrString((PyObject *)Py_TYPE(given), "_fields") : NULL;
    int same = names && PyTuple_Check(names) && PyTuple_GET_SIZE(names) == record->count
        && PyTuple_GET_SIZE(given) == record->count;
    for (int n = 0; same && n < record->count; n++) {
        PyObject *name = PyTuple_GET_ITEM(names, n);
        same = PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, record->fields[n].name);
        if (!same) PyErr_Format(PyExc_TypeError, "field %d of %s is %R; C reads %s", n, record->name, name,
                                record->fields[n].name);
    }
    if (!same && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_AttributeError)))
        PyErr_Format(PyExc_TypeError, "%R is no record %s of %d fields", given, record->name, record->count);
    if (same) Py_XSETREF(record->checked, (PyTypeObject *)Py_NewRef(Py_TYPE(given)));
    Py_XDECREF(names);
    return same;
}

static void read_record(PyObject *given, Record *record, char *into, Block **blocks);

/* Read one number, or one array. */
static void read_field(PyObject *given, const Record *record, const Field *field, char *into, Block **blocks) {
    if (field->kind == WHOLE || field->kind == REAL) {
        int64_t whole = field->kind == WHOLE ? PyLong_AsLongLong(given) : 0;
        double real = field->kind == WHOLE ? (double)whole : PyFloat_AsDouble(given);
        if (PyErr_Occurred()) return;
        if (!(real >= field->lowest && real <= field->highest))
            PyErr_Format(PyExc_ValueError, "%s.%s is out of range: %R", record->name, field->name, given);
        else if (field->kind == WHOLE) memcpy(into + field->at, &whole, sizeof(whole));
        else memcpy(into + field->at, &real, sizeof(real));
        return;
    }
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) > MOST_ITEMS) {
        PyErr_Format(PyExc_TypeError, "%s.%s is not a tuple, or is too long", record->name, field->name);
        return;
    }
    int count = (int)PyTuple_GET_SIZE(given);
    size_t size = field->kind == WHOLES ? sizeof(int64_t) : field->of->size;
    char *items = block_of((size_t)count, size, blocks);
    if (!items) return;
    const Field item = {field->name, WHOLE, 0, 0, field->lowest, field->highest, NULL};
    for (int n = 0; n < count && !PyErr_Occurred(); n++) {
        PyObject *each = PyTuple_GET_ITEM(given, n);
        if (field->kind == WHOLES) read_field(each, record, &item, items + (size_t)n * size, blocks);
        else read_record(each, field->of, items + (size_t)n * size, blocks);
    }
    memcpy(into + field->at, &items, sizeof(items));
    memcpy(into + field->count_at, &count, sizeof(count));
}

/* Read all fields of a record into a struct, whose arrays are among `blocks` afterwards, with an exception or not. */
static void read_record(PyObject *given, Record *record, char *into, Block **blocks) {
    if (!is_labelled(given, record)) return;
    for (int n = 0; n < record->count && !PyErr_Occurred(); n++)
        read_field(PyTuple_GET_ITEM(given, n), record, &record->fields[n], into, blocks);
}
