/* Parsing of the arguments of Handler and is_sound, and allocation of a run's state. A wrong type or a number out of
 * range sets an exception; more than this engine supports sets OverflowError, and Python runs the program instead.
 */

static void *made(int count, size_t size) {
    void *found = calloc(count > 0 ? (size_t)count : 1, size);
    if (!found) PyErr_NoMemory();
    return found;
}

/* Parse a row of an argument as PyArg_ParseTuple does; TypeError if it is not a tuple. */
static int read_row(PyObject *row, const char *format, ...) {
    if (!PyTuple_Check(row)) { PyErr_SetString(PyExc_TypeError, "a row is not a tuple"); return -1; }
    va_list fields;
    va_start(fields, format);
    int is_read = PyArg_VaParse(row, format, fields);
    va_end(fields);
    return is_read ? 0 : -1;
}

/* Return the total number of items in the rows of a tuple, or -1 with an exception set. */
static int count_items(PyObject *table) {
    Py_ssize_t total = 0;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(table); n++) {
        PyObject *row = PyTuple_GET_ITEM(table, n);
        if (!PyTuple_Check(row)) { PyErr_SetString(PyExc_TypeError, "not a tuple of tuples"); return -1; }
        if (PyTuple_GET_SIZE(row) > MOST_ROWS - total) { PyErr_SetString(PyExc_OverflowError, "too many"); return -1; }
        total += PyTuple_GET_SIZE(row);
    }
    return (int)total;
}

/* Return a copy of a column of numbers in [least, most), or NULL with an exception set. */
static int *read_column(PyObject *column, int least, int most, int *count) {
    Lent lent = {0};
    int *found = lend(column, &lent) || check_range(&lent, least, most) ? NULL : made(lent.count, sizeof(int));
    if (found) memcpy(found, lent.items, (size_t)lent.count * sizeof(int));
    *count = lent.count;
    give_back_column(&lent);
    return found;
}

/* Copy rows (a pair of columns) of numbers in [0, most); return the number of rows, or -1 with an exception set. */
static int read_rows(PyObject *pair, int most, Rows *rows) {
    PyObject *first, *items;
    if (read_row(pair, "OO", &first, &items)) return -1;
    LentRows lent = {0};
    int failed = lend_rows(first, items, 0, most, &lent), count = lent.count;
    if (!failed && (rows->first = made(lent.first.count, sizeof(int)))
        && (rows->items = made(lent.items.count, sizeof(int)))) {
        memcpy(rows->first, lent.first.items, (size_t)lent.first.count * sizeof(int));
        memcpy(rows->items, lent.items.items, (size_t)lent.items.count * sizeof(int));
    } else failed = -1;
    give_back_rows(&lent);
    return failed ? -1 : count;
}

/* Read pairs (port, weight) and append them to Handler.loads; `span` is set to their place there. */
static int read_loads(Handler *h, PyObject *pairs, int *room, Span *span) {
    int count = (int)PyTuple_GET_SIZE(pairs);
    *span = (Span){h->n_loads, count};
    for (int n = 0; n < count; n++) {
        Load load, *loads = grown(h, h->loads, h->n_loads, room, sizeof(Load));
        if (!loads) { PyErr_NoMemory(); return -1; }
        h->loads = loads;
        if (read_row(PyTuple_GET_ITEM(pairs, n), "id", &load.port, &load.weight)) return -1;
        if (load.port < 0 || load.port >= h->n_ports) { PyErr_SetString(PyExc_ValueError, "no such port"); return -1; }
        h->loads[h->n_loads++] = load;
    }
    return 0;
}

static int read_demands(Handler *h, PyObject *demands) {
    int room = 0;
    if (!(h->demands = made(h->n_demands, sizeof(Demand)))) return -1;
    for (int n = 0; n < h->n_demands; n++) {
        Demand *one = &h->demands[n];
        PyObject *loads, *crossing, *traffic;
        long long startup_ps, whole;
        if (read_row(PyTuple_GET_ITEM(demands, n), "iLdLdipO!O!O!", &one->members, &startup_ps, &one->duration_ps,
                     &whole, &one->bytes_per_ps, &one->limit, &one->moves, &PyTuple_Type, &loads, &PyTuple_Type,
                     &crossing, &PyTuple_Type, &traffic)) return -1;
        one->startup_ps = startup_ps;
        one->whole_ps = whole;
        if (one->limit < 0 || one->limit >= h->n_limits || startup_ps < 0 || whole < 0) {
            PyErr_SetString(PyExc_ValueError, "a demand is out of range");
            return -1;
        }
        if (read_loads(h, loads, &room, &one->loads) || read_loads(h, crossing, &room, &one->crossing)
            || read_loads(h, traffic, &room, &one->traffic)) return -1;
    }
    return 0;
}

static int read_works(Handler *h, PyObject *works) {
    if (!(h->works = made(h->n_works, sizeof(Work)))) return -1;
    for (int n = 0; n < h->n_works; n++) {
        Work *one = &h->works[n];
        long long startup_ps;
        if (read_row(PyTuple_GET_ITEM(works, n), "iiiLii", &one->queue, &one->kind, &one->members, &startup_ps,
                     &one->parts.first, &one->parts.count)) return -1;
        one->startup_ps = startup_ps;
        if (one->queue < 0 || one->queue >= h->n_queues || one->kind < 0 || one->kind >= h->n_kinds || startup_ps < 0
            || one->parts.first < 0 || one->parts.first > h->n_demands || one->parts.count < 0
            || one->parts.count > h->n_demands - one->parts.first) {
            PyErr_SetString(PyExc_ValueError, "a work is out of range");
            return -1;
        }
    }
    return 0;
}

static int read_ports(Handler *h, PyObject *ports) {
    if (!(h->ports = made(h->n_ports, sizeof(Port))) || !(h->changed = made(h->n_ports, sizeof(int)))) return -1;
    for (int n = 0; n < h->n_ports; n++) {
        Port *port = &h->ports[n];
        long long capacity_bytes;
        if (read_row(PyTuple_GET_ITEM(ports, n), "dLi", &port->capacity, &capacity_bytes, &port->limit)) return -1;
        if (port->limit < 0 || port->limit >= h->n_limits || capacity_bytes < 0) {
            PyErr_SetString(PyExc_ValueError, "a memory is out of range");
            return -1;
        }
        port->capacity_bytes = capacity_bytes;
        port->full = port->capacity * (1 + 1e-12);
        port->freed_by = NOBODY;
    }
    return 0;
}

/* Read the distinct spaces, each a row of pairs (port, bytes), and the index of its space for every buffer. */
static int read_spaces(Handler *h, PyObject *spaces, PyObject *space_of) {
    int total = count_items(spaces);
    if (total < 0 || !(h->spaces.first = made(h->n_spaces + 1, sizeof(int)))
        || !(h->spaces.items = made(total, sizeof(int))) || !(h->space_bytes = made(total, sizeof(int64_t)))
        || !(h->space_of = read_column(space_of, -1, h->n_spaces, &h->n_buffers))) return -1;
    for (int n = 0, at = 0; n < h->n_spaces; n++) {
        PyObject *row = PyTuple_GET_ITEM(spaces, n);
        for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(row); place++, at++) {
            long long size_bytes;
            if (read_row(PyTuple_GET_ITEM(row, place), "iL", &h->spaces.items[at], &size_bytes)) return -1;
            if (h->spaces.items[at] < 0 || h->spaces.items[at] >= h->n_ports || size_bytes < 0) {
                PyErr_SetString(PyExc_ValueError, "a space is out of range");
                return -1;
            }
            h->space_bytes[at] = size_bytes;
        }
        h->spaces.first[n + 1] = at;
    }
    return 0;
}

/* Read each queue's kind, servers and instructions in flight; create its workers. */
static int read_queues(Handler *h, PyObject *queues) {
    if (!(h->queues = made(h->n_queues, sizeof(Queue)))) return -1;
    int servers = 0;
    for (int n = 0; n < h->n_queues; n++) {
        Queue *queue = &h->queues[n];
        if (read_row(PyTuple_GET_ITEM(queues, n), "iii", &queue->kind, &queue->servers, &queue->in_flight)) return -1;
        if (queue->kind < 0 || queue->kind >= h->n_kinds || queue->servers < 1 || queue->in_flight < 1) {
            PyErr_SetString(PyExc_ValueError, "a queue is out of range");
            return -1;
        }
        if (queue->servers > MOST_SERVERS - servers) {
            PyErr_SetString(PyExc_OverflowError, "too many servers");
            return -1;
        }
        servers += queue->servers;
        h->n_workers += queue->in_flight > 1 ? 1 : queue->servers;
    }
    for (int n = 0; n < h->count; n++) h->queues[h->works[h->work_of[n]].queue].count++;
    if (!(h->workers = made(h->n_workers, sizeof(Worker)))) return -1;
    for (int n = 0, w = 0; n < h->n_queues; n++) {
        Queue *queue = &h->queues[n];
        if (!(queue->positions = made(queue->count, sizeof(int)))) return -1;
        for (int k = 0; k < (queue->in_flight > 1 ? 1 : queue->servers); k++, w++) {
            Worker *worker = &h->workers[w];
            worker->queue = n;
            worker->kind = queue->kind;
            worker->position = worker->cause = worker->freed_by = NOBODY;
            if (queue->in_flight == 1) continue;
            worker->is_pipelined = 1;
            int64_t most_issued = (int64_t)queue->servers * queue->in_flight;
            worker->most_issued = most_issued > queue->count ? queue->count + 1 : (int)most_issued; /* or unbounded */
            worker->free_count = queue->servers;
            if (!(worker->backlog = made(worker->most_issued, sizeof(int)))
                || !(worker->free_since_ps = made(queue->servers, sizeof(int64_t)))) return -1;
        }
    }
    for (int n = 0; n < h->n_queues; n++) h->queues[n].count = 0;
    for (int n = 0; n < h->count; n++) {
        Queue *queue = &h->queues[h->works[h->work_of[n]].queue];
        queue->positions[queue->count++] = n;
    }
    return 0;
}

static int *filled(int count, int value) {
    int *found = made(count, sizeof(int));
    for (int n = 0; found && n < count; n++) found[n] = value;
    return found;
}

static int64_t *unset(int count) {
    int64_t *found = made(count, sizeof(int64_t));
    for (int n = 0; found && n < count; n++) found[n] = -1;
    return found;
}

/* Allocate and initialise the state of a run from the parsed arguments. */
static int prepare(Handler *h) {
    int n = h->count, kinds = h->n_kinds * (h->n_kinds + 1);
    h->unfinished = n;
    h->n_buckets = 256;
    h->free_instant = -1;
    if (!(h->first_flow = made(n, sizeof(int)))) return -1;
    for (int position = 0; position < n; position++) {
        int parts = h->works[h->work_of[position]].parts.count;
        if (parts > MOST_ROWS - h->n_flows) { PyErr_SetString(PyExc_OverflowError, "too many flows"); return -1; }
        h->first_flow[position] = h->n_flows;
        h->n_flows += parts;
    }
    if (!(h->issued_ps = unset(n)) || !(h->start_ps = unset(n)) || !(h->end_ps = unset(n))
        || !(h->startup_ps = made(n, sizeof(int64_t))) || !(h->released_by = filled(n, NOBODY))
        || !(h->limits = filled(n, 0)) || !(h->blocked_head = filled(n, NOBODY))
        || !(h->blocked_next = filled(n, NOBODY)) || !(h->blocked_place = filled(n, 0))
        || !(h->blocked_worker = filled(n, 0)) || !(h->parts_left = filled(n, 0))
        || !(h->flows = made(h->n_flows, sizeof(Flow))) || !(h->running = filled(h->n_flows, 0))
        || !(h->holders = filled(h->n_buffers, 0)) || !(h->allocators = filled(h->n_buffers, NOBODY))
        || !(h->waited_ps = unset(kinds)) || !(h->waited_order = filled(kinds, 0))
        || !(h->buckets = filled(h->n_buckets, -1))) return -1;
    for (int at = 0; at < h->frees.first[n]; at++) h->holders[h->frees.items[at]]++;
    for (int at = 0; at < h->allocates.first[n]; at++)
        if (h->space_of[h->allocates.items[at]] < 0) { PyErr_SetString(PyExc_ValueError, "no space"); return -1; }
    if ((h->now = new_instant(h, 0)) < 0) { PyErr_NoMemory(); return -1; }
    return 0;
}

/* Parse the arguments of Handler and prepare the run; return 0, or -1 with an exception set. */
static int read_arguments(Handler *h, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"work_of", "after", "allocates", "frees", "works", "demands", "queues", "ports", "spaces",
                            "space_of", "kinds", "limits", NULL};
    PyObject *work_of, *after_of, *allocates, *frees, *works, *demands, *queues, *ports, *spaces, *space_of;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOO!O!O!O!O!Oii", names, &work_of, &after_of, &allocates,
                                     &frees, &PyTuple_Type, &works, &PyTuple_Type, &demands, &PyTuple_Type, &queues,
                                     &PyTuple_Type, &ports, &PyTuple_Type, &spaces, &space_of, &h->n_kinds,
                                     &h->n_limits)) return -1;
    struct { PyObject *column; int *count; } counts[] = {
        {works, &h->n_works}, {demands, &h->n_demands}, {queues, &h->n_queues}, {ports, &h->n_ports},
        {spaces, &h->n_spaces}};
    for (size_t n = 0; n < sizeof(counts) / sizeof(*counts); n++) {
        Py_ssize_t count = PyTuple_GET_SIZE(counts[n].column);
        if (count > (counts[n].column == ports ? MOST_PORTS : MOST_ROWS)) {
            PyErr_SetString(PyExc_OverflowError, "too many memories, or too much else");
            return -1;
        }
        *counts[n].count = (int)count;
    }
    if (h->n_kinds > MOST_KINDS) { PyErr_SetString(PyExc_OverflowError, "too many kinds of units"); return -1; }
    if (h->n_kinds < 0 || h->n_kinds > h->n_queues || h->n_limits < 0 || h->n_limits > h->n_ports + h->n_demands) {
        PyErr_SetString(PyExc_ValueError, "there are more kinds or limits than can be");
        return -1;
    }
    if (!(h->work_of = read_column(work_of, 0, h->n_works, &h->count)) || read_spaces(h, spaces, space_of)) return -1;
    struct { PyObject *pair; int most; Rows *rows; } tables[] = {
        {after_of, h->count, &h->after}, {allocates, h->n_buffers, &h->allocates}, {frees, h->n_buffers, &h->frees}};
    for (size_t n = 0; n < sizeof(tables) / sizeof(*tables); n++) {
        int count = read_rows(tables[n].pair, tables[n].most, tables[n].rows);
        if (count < 0) return -1;
        if (count != h->count) { PyErr_SetString(PyExc_ValueError, "columns differ in length"); return -1; }
    }
    if (read_demands(h, demands) || read_works(h, works) || read_ports(h, ports) || read_queues(h, queues)) return -1;
    return prepare(h);
}
