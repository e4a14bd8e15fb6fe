/* Cuts (tiling candidates) of a core's part, and their cost model: a port of cuts.py, candidates.py and estimate.py in
 * scheduler/dsa/tiling.
 */

typedef struct {
    int64_t times, bytes, streamed_bytes, passing_bytes;
    double needed_bytes, moved_bytes;
    int comes_ahead; /* a weight loaded through the prefetch buffers: every core gets each part of it once */
} CutOperand;

/* A tiling candidate: a core's part with each dimension halved a number of times, and its costs. */
typedef struct {
    uint64_t key; /* halvings per dimension, six bits each */
    int64_t tiles, passes, output_bytes, between_bytes, tile_bytes, unit_ps[MOST_UNITS];
    int64_t priced_in; /* number of the search for which `estimate_ps` and `fits` are valid */
    double estimate_ps;
    int fits;
    CutOperand operands[]; /* one per operand of the layer */
} Cut;

typedef struct { double bytes_per_ps; int64_t burst_bytes, startup_ps, at_once; } Timing; /* of an outer memory */

/* Parameters of a search, the record `Asked`: free space in the buffers, timing of outer memories, tuning constants. */
typedef struct {
    ROWS_OF(Timing, timings);
    ROWS_OF(int64_t, local_gaps);
    ROWS_OF(int64_t, global_gaps);
    int64_t near_bytes, far_bytes, store_burst_bytes, global_buffer_bytes, global_room;
    double hidden_cost, worthwhile, overlapped;
    int64_t most_tiles, most_passes, most_climbs, plateau_steps, depth_halvings, overlaps, single_buffers;
} Asked;

/* ---- loads of operands ---- */

/* Set the number of loads of each operand for a loop order of the tiles, and return the total bytes loaded. */
static int64_t loads(const Layer *layer, const Work *work, const int64_t *order, const int64_t *counts, int64_t *times) {
    int64_t bytes = 0;
    for (int n = 0; n < layer->n_operands; n++) {
        int64_t depends = layer->operands[n].depends;
        int64_t rounds = 1;
        times[n] = 1;
        for (int place = 0; place <= layer->n_dims; place++) { /* the depth is the innermost loop */
            int64_t loop = place < layer->n_dims ? order[place] : DEPTH_STEPS;
            int64_t count = counts[place < layer->n_dims ? loop : layer->n_dims];
            rounds *= count;
            if (count > 1 && depends >> loop & 1) times[n] = rounds;
        }
        if (layer->reloads) times[n] = rounds;
        bytes += times[n] * work->operand_bytes[n];
    }
    return bytes;
}

/* Compute the cut into these tiles, in the first loop order that loads the fewest bytes. */
static void cut_into(const Layer *layer, const int64_t *tile, int64_t depth, Cut *cut) {
    Work work;
    work_of(layer, tile, depth, &work);
    int64_t counts[MOST_RANK + 1], times[MOST_OPERANDS], best[MOST_OPERANDS] = {0}, fewest_bytes = -1;
    for (int d = 0; d < layer->n_dims; d++) counts[d] = up(layer->extents[d], tile[d]);
    counts[layer->n_dims] = depth ? up(layer->extents[layer->n_dims], depth) : 1;
    for (int n = 0; n < layer->n_orders; n++) {
        int64_t bytes = loads(layer, &work, layer->orders[n].dims, counts, times);
        if (fewest_bytes >= 0 && bytes >= fewest_bytes) continue;
        fewest_bytes = bytes;
        memcpy(best, times, sizeof(best));
    }
    cut->tiles = product(counts, layer->n_dims);
    cut->passes = cut->tiles * counts[layer->n_dims];
    cut->output_bytes = work.output_bytes;
    cut->between_bytes = work.between_bytes;
    cut->tile_bytes = work.between_bytes + (layer->output_memory == TO_LOCAL ? 0 : work.output_bytes);
    memcpy(cut->unit_ps, work.unit_ps, sizeof(work.unit_ps));
    for (int n = 0; n < layer->n_operands; n++) {
        const Operand *operand = &layer->operands[n];
        CutOperand *found = &cut->operands[n];
        int64_t bytes = work.operand_bytes[n];
        int64_t versions = operand->depends >> DEPTH_STEPS & 1 ? counts[layer->n_dims] : 1;
        for (int d = 0; d < layer->n_dims; d++) if (operand->depends >> d & 1) versions *= counts[d];
        double needed_bytes = (double)(bytes * layer->cores) / (double)operand->sharing;
        double outside_bytes = ceil((double)bytes * operand->from_outside) * (double)layer->cores;
        *found = (CutOperand){
            best[n], bytes, (int64_t)ceil((double)bytes * operand->streamed),
            (int64_t)ceil(outside_bytes / (double)operand->sharing * operand->filled), needed_bytes,
            needed_bytes * operand->streamed,
            layer->has_prefetch && operand->can_come_ahead && versions == best[n],
        };
        cut->tile_bytes += found->streamed_bytes;
    }
}

/* ---- space ---- */

/* Return whether buffers fit in gaps, best fit decreasing (largest buffer first, smallest sufficient gap): `fit`. */
static int fit(const int64_t *given, int count, const int64_t *free_bytes, int n_gaps) {
    int64_t sizes[2 * MOST_OPERANDS + 4], gaps[MOST_RANK], total = 0, room = 0;
    for (int n = 0; n < count; n++) total += sizes[n] = given[n];
    for (int n = 0; n < n_gaps; n++) room += gaps[n] = free_bytes[n];
    if (!n_gaps || total > room) return total == 0;
    if (total <= gaps[0]) return 1;
    for (int taken = 0; taken < count; taken++) {
        int largest = taken, place = -1;
        for (int n = taken + 1; n < count; n++) if (sizes[n] > sizes[largest]) largest = n;
        int64_t wanted = sizes[largest];
        sizes[largest] = sizes[taken];
        for (int n = 0; n < n_gaps; n++)
            if (gaps[n] >= wanted && (place < 0 || gaps[n] < gaps[place])) place = n;
        if (place < 0) return 0;
        gaps[place] -= wanted;
    }
    return 1;
}

/* Return the bytes of one of the two global-buffer areas that output tiles pass through on their way out. */
static int64_t storing_bytes(const Layer *layer, const Asked *asked, const Cut *cut) {
    if (layer->output_memory != TO_OUTSIDE) return 0;
    int64_t tile = cut->output_bytes * layer->cores;
    return tile > 0 && tile < asked->store_burst_bytes ? asked->store_burst_bytes / tile * tile + tile : tile;
}

/* Placement of a cut's operands in the global buffer: staged (kept whole), or passing through. */
typedef struct {
    int is_staged[MOST_OPERANDS], n_staged;
    int64_t staged[MOST_OPERANDS], passing_bytes, again_bytes; /* `again_bytes`: of operands loaded several times */
} Places;

/* Add both buffers for operands passing through the global buffer, and both for outputs, to `sizes`. */
static int add_passing(
    const Layer *layer, const Asked *asked, const Cut *cut, int64_t passing, int64_t again, int64_t *sizes, int count
) {
    int64_t storing = storing_bytes(layer, asked, cut);
    sizes[count++] = passing;
    sizes[count++] = asked->single_buffers ? again : passing;
    sizes[count++] = storing;
    sizes[count++] = asked->single_buffers && cut->tiles == 1 ? 0 : storing;
    return count;
}

/* Stage operands that are loaded repeatedly in the global buffer while it has space, the smallest first. */
static void stage(const Layer *layer, const Asked *asked, const Cut *cut, Places *places) {
    int again[MOST_OPERANDS], count = 0;
    *places = (Places){0};
    for (int n = 0; n < layer->n_operands; n++) {
        if (cut->operands[n].comes_ahead) continue;
        places->passing_bytes += cut->operands[n].passing_bytes;
        if (cut->operands[n].times == 1 || !layer->operands[n].distinct_bytes) continue;
        places->again_bytes += cut->operands[n].passing_bytes;
        int place = count++;
        const Operand *one = &layer->operands[n];
        for (; place; place--) { /* sorted by bytes, then by name */
            const Operand *before = &layer->operands[again[place - 1]];
            if (before->distinct_bytes < one->distinct_bytes
                || (before->distinct_bytes == one->distinct_bytes && before->name_rank < one->name_rank)) break;
            again[place] = again[place - 1];
        }
        again[place] = n;
    }
    if (!count || !asked->global_buffer_bytes || layer->operands[again[0]].distinct_bytes > asked->global_room) return;
    for (int n = 0; n < count; n++) {
        int64_t own = cut->operands[again[n]].passing_bytes;
        int64_t *sizes = places->staged, size = layer->operands[again[n]].distinct_bytes;
        int64_t with[MOST_OPERANDS + 5];
        int held = places->n_staged;
        memcpy(with, sizes, sizeof(int64_t) * (size_t)held);
        with[held] = size;
        int64_t left = places->passing_bytes - own, left_again = places->again_bytes - own;
        int all = add_passing(layer, asked, cut, left, left_again, with, held + 1);
        if (!fit(with, all, asked->global_gaps, asked->n_global_gaps)) continue;
        sizes[places->n_staged++] = size;
        places->is_staged[again[n]] = 1;
        places->passing_bytes = left;
        places->again_bytes = left_again;
    }
}

/* Return whether all buffers of a cut fit in the gaps, and its prefetched weights in the prefetch buffers. */
static int is_fitting(const Layer *layer, const Asked *asked, const Cut *cut, const Places *places) {
    int64_t buffers[2 * MOST_OPERANDS + 3], near_bytes = 0, far_bytes = 0;
    int count = 0, ahead = 0;
    for (int n = 0; n < layer->n_operands; n++) ahead += cut->operands[n].comes_ahead;
    int64_t burst_room = most(asked->far_bytes / (2 * most(ahead, 1)), 1);
    for (int n = 0; n < layer->n_operands; n++) {
        const CutOperand *operand = &cut->operands[n];
        int slots = operand->times > 1 ? 2 : 1;
        if (operand->comes_ahead) {
            near_bytes += operand->streamed_bytes * slots;
            far_bytes += 2 * least(operand->passing_bytes, burst_room);
        } else while (slots--) buffers[count++] = operand->streamed_bytes;
    }
    if (layer->has_prefetch && (near_bytes > asked->near_bytes || far_bytes > asked->far_bytes)) return 0;
    buffers[count++] = cut->between_bytes;
    for (int slots = cut->tiles > 1 ? 2 : 1; slots; slots--)
        buffers[count++] = layer->output_memory == TO_LOCAL ? 0 : cut->output_bytes;
    int64_t local_bytes = 0;
    for (int n = 0; n < count; n++) local_bytes += buffers[n];
    int has_one_gap = asked->n_local_gaps && local_bytes <= asked->local_gaps[0];
    if (!has_one_gap && !fit(buffers, count, asked->local_gaps, asked->n_local_gaps)) return 0;
    if (!asked->global_buffer_bytes) return 1;
    int64_t further[MOST_OPERANDS + 4];
    memcpy(further, places->staged, sizeof(int64_t) * (size_t)places->n_staged);
    count = add_passing(layer, asked, cut, places->passing_bytes, places->again_bytes, further, places->n_staged);
    return fit(further, count, asked->global_gaps, asked->n_global_gaps);
}

/* ---- time ---- */

static double larger(double one, double other) { return one > other ? one : other; }

/* Return the time of `starts` transfers of `bytes` in total: `LevelTiming.moving_ps`. */
static double moving_ps(const Timing *timing, double bytes, double starts) {
    double alone_ps = bytes / timing->bytes_per_ps;
    return larger(alone_ps, (alone_ps + starts * (double)timing->startup_ps) / (double)timing->at_once);
}

/* Return the exposed part of the first tile's load, which takes `alone_ps`: prefetching hides the rest of it. */
static double first_load_ps(const Asked *asked, double alone_ps, int64_t held_bytes) {
    if (held_bytes && 2 * held_bytes < asked->near_bytes)
        return alone_ps * ((double)(2 * held_bytes) / (double)asked->near_bytes);
    return alone_ps;
}

/* Return the estimated time of a layer: `stages_of` and `Stages.estimate_ps`, with sums in the same order. */
static double estimate_ps(const Layer *layer, const Asked *asked, const Cut *cut, const Places *places) {
    double loaded_bytes[MOST_LEVELS] = {0.0}, stored_bytes[MOST_LEVELS] = {0.0}, starts[MOST_LEVELS] = {0.0};
    double path_ps = 0.0, broadcast_ps = 0.0, link_ps = 0.0, first_ps = 0.0;
    int64_t path_starts = 0, broadcast_starts = 0;
    for (int n = 0; n < layer->n_operands; n++) {
        const Operand *operand = &layer->operands[n];
        const CutOperand *own = &cut->operands[n];
        int goes_around = layer->has_prefetch && !own->comes_ahead;
        int64_t held_bytes = layer->has_prefetch && !goes_around ? own->bytes : 0;
        double once_ps, times = (double)own->times, distinct_bytes = (double)operand->distinct_bytes;
        if (operand->is_broadcast) {
            once_ps = own->moved_bytes / layer->broadcast_bytes_per_ps;
            broadcast_ps += times * once_ps;
            broadcast_starts = most(broadcast_starts, own->times);
        } else {
            once_ps = own->moved_bytes * (double)operand->copies / layer->path_bytes_per_ps;
            path_ps += times * once_ps;
            path_starts = most(path_starts, own->times);
        }
        first_ps += first_load_ps(asked, once_ps, held_bytes);
        for (int m = 0; m < operand->n_sources; m++) {
            int64_t level = operand->sources[m].level;
            const Timing *timing = &asked->timings[level];
            double share = operand->sources[m].share, part = share / operand->from_outside, own_bytes = distinct_bytes * part;
            if (goes_around && own_bytes != 0.0) first_ps += own_bytes / timing->bytes_per_ps;
            if (places->is_staged[n]) {
                loaded_bytes[level] += own_bytes;
                starts[level] += larger(own_bytes / (double)timing->burst_bytes, 1.0);
                double first_bytes = larger(own->needed_bytes * part, (double)timing->burst_bytes);
                first_ps += (first_bytes > own_bytes ? own_bytes : first_bytes) / timing->bytes_per_ps;
            } else {
                loaded_bytes[level] += own->needed_bytes * times * share;
                starts[level] = larger(times, starts[level]);
                first_ps += first_load_ps(asked, own->needed_bytes * share / timing->bytes_per_ps, held_bytes);
            }
        }
        if (operand->from_clusters != 0.0) { /* a part comes from other clusters: `_exchanges_ps` */
            double linked = operand->from_clusters / operand->from_outside;
            double passing_bytes = own->needed_bytes * operand->from_clusters;
            double received_bytes = places->is_staged[n] ? distinct_bytes * linked : passing_bytes;
            double exchanges_ps = received_bytes * operand->exchange_ps_per_byte + layer->exchange_startup_ps;
            if (!places->is_staged[n]) exchanges_ps *= times;
            link_ps += exchanges_ps;
            first_ps += exchanges_ps / times;
        }
    }
    path_ps += (double)(path_starts * layer->path_startup_ps);
    broadcast_ps += (double)(broadcast_starts * layer->path_startup_ps);
    double last_ps = 0.0, leaving_ps = 0.0, startup_ps = 0.0, together_ps = 0.0, slowest_ps = 0.0, busiest_ps = 0.0;
    if (layer->output_memory != TO_LOCAL) {
        double tile_bytes = (double)(cut->output_bytes * layer->cores);
        last_ps = tile_bytes / layer->path_bytes_per_ps + (double)layer->path_startup_ps;
        path_ps += last_ps * (double)cut->tiles;
        for (int m = 0; layer->output_memory == TO_OUTSIDE && m < layer->n_stored_in; m++)
            stored_bytes[layer->stored_in[m].level] += tile_bytes * (double)cut->tiles * layer->stored_in[m].share;
    }
    for (int level = 0; level < layer->levels; level++) {
        const Timing *timing = &asked->timings[level];
        double load_ps = moving_ps(timing, loaded_bytes[level], larger(starts[level] - 1, 0.0)), store_ps = 0.0;
        if (starts[level] != 0.0) startup_ps = larger(startup_ps, (double)timing->startup_ps);
        if (stored_bytes[level] != 0.0) {
            double bursts = stored_bytes[level] / (double)timing->burst_bytes, tiles = (double)cut->tiles;
            bursts = larger(bursts < tiles ? bursts : tiles, 1.0);
            store_ps = moving_ps(timing, stored_bytes[level], bursts - 1);
            double sent_ps = stored_bytes[level] / bursts / timing->bytes_per_ps + (double)timing->startup_ps;
            leaving_ps = larger(leaving_ps, sent_ps);
        }
        together_ps += load_ps;
        together_ps += store_ps;
        slowest_ps = larger(slowest_ps, larger(load_ps, store_ps));
        busiest_ps = larger(busiest_ps, (loaded_bytes[level] + stored_bytes[level]) / timing->bytes_per_ps);
    }
    last_ps += leaving_ps;
    int64_t tile_ps = 0;
    for (int n = 0; n < layer->n_units; n++) tile_ps += cut->unit_ps[n];
    together_ps += path_ps;
    together_ps += broadcast_ps;
    together_ps += link_ps;
    slowest_ps = larger(larger(slowest_ps, link_ps), larger(path_ps, broadcast_ps));
    int one_after_the_other = cut->between_bytes > 0; /* intermediates between nests are not double-buffered */
    for (int n = 0; n < (one_after_the_other ? 1 : layer->n_units); n++) {
        double computing_ps = (double)(one_after_the_other ? tile_ps : cut->unit_ps[n]) * (double)cut->passes;
        together_ps += computing_ps;
        slowest_ps = larger(slowest_ps, computing_ps);
    }
    slowest_ps = larger(slowest_ps, busiest_ps);
    double paced_ps = slowest_ps * (1 - 1 / (double)cut->passes) + asked->hidden_cost * (together_ps - slowest_ps);
    int64_t on_chip_starts_ps = ((path_starts > 0) + (broadcast_starts > 0)) * layer->path_startup_ps;
    return paced_ps + (first_ps + (double)on_chip_starts_ps + startup_ps)
        + ((double)tile_ps + last_ps);
}
