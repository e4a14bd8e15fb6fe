/* Prefetch buffers: a port of scheduler/dsa/lower/prefetch_buffer.py, with the same names; columns.c includes it after
 * the functions it uses. If a buffer is too small, BufferError carries the number of bytes it would need.
 */

#define MOST_IN_FLIGHT 4096

typedef struct { int64_t size_bytes, stated_before; long long user; } Admitted;
typedef struct { Made transfers, evicted; } Filling;

typedef struct {
    PyObject_HEAD
    int64_t capacity_bytes, used_bytes, admitted;
    Admitted *entries; Py_ssize_t oldest, end, room; /* contents: entries from `oldest` up to, not including, `end` */
    Filling *filled; int in_flight, n_filled, next; /* ring of the last fillings; `next` is overwritten next */
    int was_full;
} Buffer;

static PyObject *buffer_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    long long capacity_bytes;
    int in_flight;
    if (!PyArg_ParseTuple(args, "Li", &capacity_bytes, &in_flight)) return NULL;
    if (in_flight < 1 || in_flight > MOST_IN_FLIGHT) {
        PyErr_SetString(PyExc_OverflowError, "too many transfers in flight");
        return NULL;
    }
    Buffer *b = (Buffer *)type->tp_alloc(type, 0);
    if (!b) return NULL;
    b->capacity_bytes = capacity_bytes;
    b->in_flight = in_flight;
    if (!(b->filled = calloc((size_t)in_flight, sizeof(Filling)))) { Py_DECREF(b); return PyErr_NoMemory(); }
    return (PyObject *)b;
}

static void buffer_dealloc(Buffer *b) {
    for (int n = 0; b->filled && n < b->in_flight; n++) {
        free(b->filled[n].transfers.items);
        free(b->filled[n].evicted.items);
    }
    free(b->filled);
    free(b->entries);
    Py_TYPE(b)->tp_free((PyObject *)b);
}

static int append_all(Made *to, const Made *numbers) {
    if (reserve(to, numbers->count)) return -1;
    for (Py_ssize_t n = 0; n < numbers->count; n++) to->items[to->count++] = numbers->items[n];
    return 0;
}

/* Append the instructions that the next filling must not overtake: earlier fillings that wait for space. */
static int find_behind(const Buffer *b, Made *behind) {
    int is_oldest = b->n_filled == b->in_flight, failed = 0;
    int first = is_oldest ? b->next : 0;
    for (int n = 0; b->was_full && !failed && n < b->n_filled; n++) {
        const Filling *one = &b->filled[(first + n) % b->in_flight];
        failed = append_all(behind, is_oldest ? &one->transfers : &one->evicted);
        is_oldest = 0;
    }
    return failed;
}

/* Evict the oldest unused entries until the contents fit; append the last users of those evicted. */
static int make_room(Buffer *b, Made *evicted) {
    Py_ssize_t at = b->oldest;
    while (b->used_bytes > b->capacity_bytes && at < b->end) {
        const Admitted *old = &b->entries[at++];
        if (old->stated_before > b->admitted) continue;
        b->used_bytes -= old->size_bytes;
        if (reserve(evicted, 1)) return -1;
        append(evicted, old->user);
    }
    Py_ssize_t kept = at; /* entries in use stay the oldest, in their order */
    for (Py_ssize_t n = at; n-- > b->oldest;)
        if (b->entries[n].stated_before > b->admitted) b->entries[--kept] = b->entries[n];
    b->oldest = kept;
    if (b->used_bytes > b->capacity_bytes) {
        PyErr_Format(PyExc_BufferError, "%lld", (long long)b->used_bytes);
        return -1;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int let_in(Buffer *b, Admitted in_now) {
    if (b->end == b->room && b->oldest > b->room / 2) {
        memmove(b->entries, b->entries + b->oldest, (size_t)(b->end - b->oldest) * sizeof(Admitted));
        b->end -= b->oldest;
        b->oldest = 0;
    }
    if (b->end == b->room) {
        Py_ssize_t room = 2 * b->room + 64;
        Admitted *entries = realloc(b->entries, (size_t)room * sizeof(Admitted));
        if (!entries) { PyErr_NoMemory(); return -1; }
        b->entries = entries;
        b->room = room;
    }
    b->entries[b->end++] = in_now;
    b->admitted++;
    return 0;
}

/* Borrow a column of `count` 64-bit numbers; return them, or NULL with an exception set. */
static const int64_t *lend_sizes(PyObject *column, Py_buffer *view, int count) {
    if (PyObject_GetBuffer(column, view, PyBUF_FORMAT | PyBUF_ND)) return NULL;
    if (view->ndim == 1 && view->format && !strcmp(view->format, "q") && view->shape[0] == count) return view->buf;
    PyErr_SetString(PyExc_TypeError, "not as many numbers of 64 bits");
    return NULL;
}

PyDoc_STRVAR(pass_through_doc,
    "pass_through(sizes_bytes, users, stated_before, filled, transfers_first, transfers_items, first)\n--\n\n"
    "Admit the weights of a layer run; return the dependencies of each admission:\n"
    "`scheduler.dsa.lower.prefetch_buffer.PrefetchBuffer.pass_through`.");

static PyObject *buffer_pass_through(Buffer *b, PyObject *args) {
    PyObject *given_sizes, *given_users, *given_stated, *given_filled, *given_first, *given_items, *found = NULL;
    int first;
    if (!PyArg_ParseTuple(args, "OOOOOOi", &given_sizes, &given_users, &given_stated, &given_filled, &given_first,
                          &given_items, &first)) return NULL;
    Lent users = {0}, stated = {0}, filled = {0};
    LentRows transfers = {0};
    Py_buffer view = {0};
    const int64_t *sizes = NULL;
    Made row = {0}, items = {0}, behind = {0};
    int failed = lend(given_users, &users) || lend(given_stated, &stated) || lend(given_filled, &filled)
        || check_range(&filled, 0, users.count + 1) || lend_rows(given_first, given_items, 0, INT_MAX, &transfers)
        || !(sizes = lend_sizes(given_sizes, &view, users.count)) || reserve(&row, users.count + 1)
        || reserve(&items, users.count);
    if (!failed && (stated.count != users.count || filled.count != transfers.count))
        failed = refused(PyExc_ValueError, "columns differ in length");
    int64_t begun = b->admitted;
    if (!failed) append(&row, 0);
    for (int n = 0, number = 0; !failed && n < filled.count; n++) {
        Filling now = {0};
        behind.count = 0;
        failed = find_behind(b, &behind);
        for (; !failed && number < filled.items[n]; number++) {
            Py_ssize_t before = now.evicted.count;
            b->used_bytes += sizes[number];
            Admitted in_now = {sizes[number], begun + stated.items[number], (long long)first + users.items[number]};
            if ((failed = make_room(b, &now.evicted))) break;
            Made made_room = {now.evicted.items + before, now.evicted.count - before, 0};
            failed = append_all(&items, &made_room) || append_all(&items, &behind) || let_in(b, in_now);
            append(&row, items.count);
        }
        b->was_full |= now.evicted.count > 0;
        int begin = transfers.first.items[n], end = transfers.first.items[n + 1];
        if (!failed && b->was_full && !(failed = reserve(&now.transfers, end - begin)))
            for (int at = begin; at < end; at++) append(&now.transfers, (long long)first + transfers.items.items[at]);
        Filling *oldest = &b->filled[b->next];
        free(oldest->transfers.items);
        free(oldest->evicted.items);
        *oldest = now;
        b->next = (b->next + 1) % b->in_flight;
        if (b->n_filled < b->in_flight) b->n_filled++;
        failed = failed || PyErr_Occurred();
    }
    if (!failed) found = rows_of(&row, &items);
    free(row.items);
    free(items.items);
    free(behind.items);
    PyBuffer_Release(&view);
    give_back_column(&users);
    give_back_column(&stated);
    give_back_column(&filled);
    give_back_rows(&transfers);
    return found;
}

static PyMethodDef buffer_methods[] = {
    {"pass_through", (PyCFunction)buffer_pass_through, METH_VARARGS, pass_through_doc}, {NULL, NULL, 0, NULL}};

static PyTypeObject buffer_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dsascape.scheduler.in_c.columns.PrefetchBuffer",
    .tp_doc = "Prefetch buffer: contents and fillings in flight at one point of a program.",
    .tp_basicsize = sizeof(Buffer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = buffer_new,
    .tp_dealloc = (destructor)buffer_dealloc,
    .tp_methods = buffer_methods,
};
