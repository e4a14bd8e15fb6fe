/* Fields of the records that the tile search reads, in the order and with the names of scheduler/dsa/tiling/records.py.
 */

#define WHOLE_FIELD(Type, name, lowest, highest) {#name, WHOLE, offsetof(Type, name), 0, lowest, highest, NULL}
#define SIZE(Type, name) WHOLE_FIELD(Type, name, 0, BYTES)
#define COUNTS(Type, name) WHOLE_FIELD(Type, name, 1, BYTES)
#define FLAG(Type, name) WHOLE_FIELD(Type, name, 0, 1)
#define REAL_FIELD(Type, name, lowest) {#name, REAL, offsetof(Type, name), 0, lowest, BYTES, NULL}
#define WHOLES_FIELD(Type, name, lowest) \
    {#name, WHOLES, offsetof(Type, name), offsetof(Type, n_##name), lowest, BYTES, NULL}
#define RECORDS_FIELD(Type, name, of) {#name, RECORDS, offsetof(Type, name), offsetof(Type, n_##name), 0, 0, of}
#define RECORD(Type, fields) {#Type, sizeof(Type), (int)(sizeof(fields) / sizeof(*fields)), fields, NULL}

static const Field term_fields[] = {SIZE(Term, loop), WHOLE_FIELD(Term, stride, -BYTES, BYTES)};
static Record term_record = RECORD(Term, term_fields);

static const Field dim_fields[] = {
    COUNTS(Dim, size), COUNTS(Dim, divisor), SIZE(Dim, window), FLAG(Dim, is_exact), FLAG(Dim, is_opaque),
    RECORDS_FIELD(Dim, terms, &term_record),
};
static Record dim_record = RECORD(Dim, dim_fields);

static const Field read_fields[] = {SIZE(Read, tensor), RECORDS_FIELD(Read, dims, &dim_record)};
static Record read_record_of = RECORD(Read, read_fields);

static const Field loop_fields[] = {COUNTS(Loop, extent), FLAG(Loop, is_counted), WHOLE_FIELD(Loop, role, ROWS, RUN)};
static Record loop_record = RECORD(Loop, loop_fields);

#define OPERATIONS(name, of) \
    {#name "_macs", WHOLE, offsetof(Nest, of[0]), 0, 0, BYTES, NULL}, \
    {#name "_simple", WHOLE, offsetof(Nest, of[1]), 0, 0, BYTES, NULL}, \
    {#name "_special", WHOLE, offsetof(Nest, of[2]), 0, 0, BYTES, NULL}

static const Field nest_fields[] = {
    SIZE(Nest, target), FLAG(Nest, is_view), SIZE(Nest, unit), WHOLE_FIELD(Nest, depth_loop, -1, MOST_ITEMS),
    SIZE(Nest, internal_bytes), SIZE(Nest, handed_bytes), FLAG(Nest, counts_iterations), SIZE(Nest, share),
    COUNTS(Nest, of_share), OPERATIONS(each, each), OPERATIONS(last, last), RECORDS_FIELD(Nest, loops, &loop_record),
    RECORDS_FIELD(Nest, writes, &dim_record), RECORDS_FIELD(Nest, reads, &read_record_of),
};
static Record nest_record = RECORD(Nest, nest_fields);

static const Field unit_fields[] = {
    FLAG(Unit, is_array), REAL_FIELD(Unit, rate, 1.0), REAL_FIELD(Unit, efficiency, 1e-9),
    REAL_FIELD(Unit, special_cycles, 0.0), COUNTS(Unit, rows), COUNTS(Unit, columns), COUNTS(Unit, depth),
    SIZE(Unit, fill_cycles), SIZE(Unit, drain_cycles), SIZE(Unit, drain_cycles_per_row),
    WHOLE_FIELD(Unit, accumulator_sets, 1, 2), COUNTS(Unit, arrays), FLAG(Unit, sums_taps),
    FLAG(Unit, separate_columns), COUNTS(Unit, reused_rows), COUNTS(Unit, reused_columns),
    WHOLE_FIELD(Unit, element_bytes, 0, 64), FLAG(Unit, is_stationary), COUNTS(Unit, issue_cycles), COUNTS(Unit, taps_together),
};
static Record unit_record = RECORD(Unit, unit_fields);

static const Field output_fields[] = {SIZE(Output, tensor), FLAG(Output, is_share), WHOLES_FIELD(Output, shape, 1)};
static Record output_record = RECORD(Output, output_fields);

static const Field source_fields[] = {WHOLE_FIELD(Source, level, 0, MOST_LEVELS - 1), REAL_FIELD(Source, share, 0.0)};
static Record source_record = RECORD(Source, source_fields);

static const Field operand_fields[] = {
    SIZE(Operand, tensor), FLAG(Operand, can_come_ahead), FLAG(Operand, is_broadcast), SIZE(Operand, name_rank),
    WHOLE_FIELD(Operand, depends, 0, (2 << DEPTH_STEPS) - 1), REAL_FIELD(Operand, from_outside, 0.0),
    RECORDS_FIELD(Operand, sources, &source_record),
    REAL_FIELD(Operand, streamed, 0.0), REAL_FIELD(Operand, filled, 0.0), COUNTS(Operand, sharing),
    COUNTS(Operand, copies), SIZE(Operand, distinct_bytes), REAL_FIELD(Operand, from_clusters, 0.0),
    REAL_FIELD(Operand, exchange_ps_per_byte, 0.0),
};
static Record operand_record = RECORD(Operand, operand_fields);

static const Field tensor_fields[] = {
    WHOLE_FIELD(Tensor, rank, 0, MOST_RANK), WHOLE_FIELD(Tensor, element_bytes, 0, 64),
};
static Record tensor_record = RECORD(Tensor, tensor_fields);

static const Field order_fields[] = {WHOLES_FIELD(LoopOrder, dims, 0)};
static Record order_record = RECORD(LoopOrder, order_fields);

static const Field layer_fields[] = {
    WHOLES_FIELD(Layer, extents, 1), WHOLES_FIELD(Layer, sink_shape, 1), WHOLES_FIELD(Layer, memory_order, 0),
    RECORDS_FIELD(Layer, tensors, &tensor_record), RECORDS_FIELD(Layer, units, &unit_record),
    RECORDS_FIELD(Layer, nests, &nest_record), RECORDS_FIELD(Layer, outputs, &output_record),
    RECORDS_FIELD(Layer, operands, &operand_record), RECORDS_FIELD(Layer, orders, &order_record),
    COUNTS(Layer, cores), WHOLE_FIELD(Layer, output_memory, TO_LOCAL, TO_OUTSIDE),
    RECORDS_FIELD(Layer, stored_in, &source_record), WHOLE_FIELD(Layer, levels, 1, MOST_LEVELS), FLAG(Layer, has_prefetch),
    FLAG(Layer, has_several_products), FLAG(Layer, reloads), SIZE(Layer, path_startup_ps),
    REAL_FIELD(Layer, path_bytes_per_ps, 1e-12),
    REAL_FIELD(Layer, broadcast_bytes_per_ps, 1e-12), REAL_FIELD(Layer, local_bytes_per_s, 1e-12),
    REAL_FIELD(Layer, cycle_ps, 1e-12), REAL_FIELD(Layer, exchange_startup_ps, 0.0),
};
static Record layer_record = RECORD(Layer, layer_fields);

static const Field timing_fields[] = {
    REAL_FIELD(Timing, bytes_per_ps, 1e-12), COUNTS(Timing, burst_bytes), SIZE(Timing, startup_ps),
    COUNTS(Timing, at_once),
};
static Record timing_record = RECORD(Timing, timing_fields);

static const Field asked_fields[] = {
    WHOLES_FIELD(Asked, local_gaps, -BYTES), WHOLES_FIELD(Asked, global_gaps, -BYTES), SIZE(Asked, near_bytes),
    SIZE(Asked, far_bytes), SIZE(Asked, global_buffer_bytes), SIZE(Asked, store_burst_bytes),
    RECORDS_FIELD(Asked, timings, &timing_record), FLAG(Asked, overlaps), REAL_FIELD(Asked, hidden_cost, 0.0),
    REAL_FIELD(Asked, worthwhile, 0.0), REAL_FIELD(Asked, overlapped, 0.0), SIZE(Asked, most_tiles),
    SIZE(Asked, most_passes), WHOLE_FIELD(Asked, most_climbs, 0, 10000), SIZE(Asked, plateau_steps),
    WHOLE_FIELD(Asked, depth_halvings, 0, 62), FLAG(Asked, single_buffers),
};
static Record asked_record = RECORD(Asked, asked_fields);

/* ---- references between records ---- */

static int are_below(const int64_t *numbers, int count, int64_t bound) {
    for (int n = 0; n < count; n++) if (numbers[n] >= bound) return 0;
    return 1;
}

/* Return whether the dimensions are those of a tensor, and their terms name some of `loops` loops. */
static int are_known(const Layer *layer, int64_t tensor, const Dim *dims, int count, int loops, int64_t least_stride) {
    if (tensor >= layer->n_tensors || layer->tensors[tensor].rank != count) return 0;
    for (int d = 0; d < count; d++)
        for (int n = 0; n < dims[d].n_terms; n++)
            if (dims[d].terms[n].loop >= loops || dims[d].terms[n].stride < least_stride) return 0;
    return 1;
}

static int is_known_nest(const Layer *layer, const Nest *nest) {
    int known = nest->unit < layer->n_units && nest->depth_loop < nest->n_loops
        && are_known(layer, nest->target, nest->writes, nest->n_writes, nest->n_loops, 1);
    for (int n = 0; known && n < nest->n_reads; n++) {
        const Read *read = &nest->reads[n];
        known = are_known(layer, read->tensor, read->dims, read->n_dims, nest->n_loops, INT64_MIN);
    }
    return known;
}

static int are_known_sources(const Layer *layer, const Source *sources, int count) {
    for (int n = 0; n < count; n++) if (sources[n].level >= layer->levels) return 0;
    return count <= layer->levels;
}

/* Return whether all records of a layer agree with each other. */
static int is_known_layer(const Layer *layer) {
    int dims = layer->n_extents - 1, known = dims >= 1 && dims <= MOST_DIMS && layer->n_sink_shape == dims
        && layer->n_memory_order == dims && are_below(layer->memory_order, dims, dims) && layer->n_orders
        && layer->n_units && layer->n_units <= MOST_UNITS && layer->n_outputs <= MOST_OPERANDS
        && layer->n_operands <= MOST_OPERANDS && are_known_sources(layer, layer->stored_in, layer->n_stored_in);
    for (int n = 0; known && n < layer->n_orders; n++)
        known = layer->orders[n].n_dims == dims && are_below(layer->orders[n].dims, dims, dims);
    for (int n = 0; known && n < layer->n_nests; n++) known = is_known_nest(layer, &layer->nests[n]);
    for (int n = 0; known && n < layer->n_outputs; n++) {
        const Output *one = &layer->outputs[n];
        known = one->tensor < layer->n_tensors && layer->tensors[one->tensor].rank == one->n_shape
            && (!one->is_share || one->n_shape <= dims);
    }
    for (int n = 0; known && n < layer->n_operands; n++) {
        const Operand *one = &layer->operands[n];
        known = one->tensor < layer->n_tensors && are_known_sources(layer, one->sources, one->n_sources);
    }
    return known;
}

/* Read a layer, whose arrays are among `blocks` afterwards, with an exception or not. */
static void read_layer(PyObject *given, Layer *layer, Block **blocks) {
    read_record(given, &layer_record, (char *)layer, blocks);
    if (!PyErr_Occurred() && !is_known_layer(layer))
        PyErr_SetString(PyExc_ValueError, "records of a layer do not agree, or are too many");
    if (PyErr_Occurred()) return;
    int widest = 1;
    for (int n = 0; n < layer->n_nests; n++) widest = (int)most(widest, layer->nests[n].n_loops);
    layer->n_dims = layer->n_extents - 1;
    layer->need = block_of((size_t)layer->n_tensors, sizeof(*layer->need), blocks);
    layer->is_needed = block_of((size_t)layer->n_tensors, 1, blocks);
    layer->extents_of = block_of((size_t)widest, sizeof(int64_t), blocks);
}

static void read_asked(PyObject *given, const Layer *layer, Asked *asked, Block **blocks) {
    read_record(given, &asked_record, (char *)asked, blocks);
    if (!PyErr_Occurred() && asked->n_timings != layer->levels)
        PyErr_SetString(PyExc_ValueError, "timings of other memories than the layer's");
    if (!PyErr_Occurred() && (asked->n_local_gaps > MOST_RANK || asked->n_global_gaps > MOST_RANK))
        PyErr_SetString(PyExc_ValueError, "too many gaps");
    for (int n = 0; n < asked->n_global_gaps; n++) asked->global_room += asked->global_gaps[n];
}
