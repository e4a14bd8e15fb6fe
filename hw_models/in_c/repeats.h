/* Memoization of stretches: repeated blocks of a program, such as equal kernels and layers, are simulated once.
 *
 * A stretch begins with a barrier: an instruction that waits for all before it, and that all after it wait for. At that
 * point nothing is running, and the future depends on the past only through how long each worker has been waiting and
 * how much each memory holds. The next barrier ends the stretch. When the same instructions occur again, the recorded
 * effects are replayed, provided that no allocation had to wait and none would now. Times are shifted, and traffic is
 * added flow by flow, so that every figure equals that of a full simulation.
 */

/* Return for every instruction n the first later m such that n has ended when m begins, provided that m begins after
 * all instructions between the two have ended; INT_MAX if there is none.
 */
static int *ends_by(const Handler *h) {
    int *found = filled(h->count, INT_MAX), *last = filled(h->n_queues, -1), is_sound = 1;
    for (int position = 0; found && last && position < h->count; position++) {
        for (int n = h->after.first[position]; n < h->after.first[position + 1]; n++) {
            is_sound &= h->after.items[n] < position;
            if (found[h->after.items[n]] > position) found[h->after.items[n]] = position;
        }
        const Queue *queue = &h->queues[h->works[h->work_of[position]].queue];
        int *before = &last[queue - h->queues];
        if (queue->servers == 1 && *before >= 0) { /* ends after its predecessor, and unpipelined begins after it */
            int from = queue->in_flight == 1 ? position : position + 1;
            if (found[*before] > from) found[*before] = from;
        }
        *before = position;
    }
    if (found && !is_sound) found[0] = INT_MAX; /* a wait for a later instruction: no position is a barrier */
    if (!last) { free(found); return NULL; }
    free(last);
    return found;
}

/* Find the stretches, merged so that each is long enough for recording to pay. There are none if several workers share
 * a queue, because the past then decides which worker takes which instruction. Return 0, or -1 with an exception set.
 */
static int find_stretches(Handler *h) {
    int *ends = ends_by(h), least = h->n_workers + h->n_ports, next = h->count, found = 0;
    if (!ends || !(h->stretch_at = filled(h->count, -1)) || !(h->ended = made(h->n_flows, sizeof(int)))
        || !(h->named_in = filled(h->n_buffers, -1)) || !(h->name = made(h->n_buffers, sizeof(int)))) goto failed;
    for (int position = 0, open = 0; position < h->count; position++) { /* before `open`, something may be running */
        if (position >= open) h->stretch_at[position] = 0;
        if (ends[position] > open) open = ends[position];
    }
    int reached = h->n_workers > h->n_queues ? -1 : h->count; /* all later ones wait for this one or for a later one */
    for (int position = h->count - 1; position >= 0; position--) {
        int begins = h->stretch_at[position] == 0 && reached >= position, last = -1;
        h->stretch_at[position] = -1;
        if (begins && next - position >= least) { h->stretch_at[position] = found++; next = position; }
        for (int n = h->after.first[position]; n < h->after.first[position + 1]; n++)
            if (h->after.items[n] > last) last = h->after.items[n];
        if (last < reached) reached = last;
    }
    for (h->n_alike = 1; h->n_alike < found; h->n_alike *= 2) {}
    if (!(h->stretches = made(found, sizeof(Stretch))) || !(h->alike = filled(h->n_alike, -1))) goto failed;
    for (int position = 0; position < h->count; position++)
        if (h->stretch_at[position] >= 0) {
            int n = h->stretch_at[position] = h->n_stretches++;
            if (n) h->stretches[n - 1].count = position - h->stretches[n - 1].first;
            h->stretches[n].first = position; /* the last one, which no barrier ends, keeps a count of 0 */
        }
    h->noted = -1;
    free(ends);
    return 0;
failed:
    free(ends);
    return -1;
}

static void free_stretches(Handler *h) {
    for (int n = 0; n < h->n_stretches; n++) {
        Stretch *one = &h->stretches[n];
        for (int w = 0; one->done && w < h->n_workers; w++) free(one->done[w].free_since_ps);
        free(one->done);
        free(one->held);
        free(one->waited_ps);
        free(one->key);
    }
}

/* ---- keys ---- */

static void add_to_key(Handler *h, int *count, int number) {
    int *key = grown(h, h->key, *count, &h->key_room, sizeof(int));
    if (!key) return;
    h->key = key;
    key[(*count)++] = number;
}

/* Add an instruction's dependencies from `first` on to the key; earlier ones have ended. */
static void add_waits(Handler *h, int *count, int position, int first) {
    for (int n = h->after.first[position]; n < h->after.first[position + 1]; n++)
        if (h->after.items[n] >= first) add_to_key(h, count, h->after.items[n] - first);
    add_to_key(h, count, -1);
}

/* Number a buffer within a stretch, and add its space and number of holders to the key. */
static void add_buffer(Handler *h, int *count, int buffer, int stretch, int *names) {
    h->named_in[buffer] = stretch;
    h->name[buffer] = (*names)++;
    add_to_key(h, count, h->space_of[buffer]);
    add_to_key(h, count, h->holders[buffer]);
}

/* Write the key of a stretch: equal keys mean equal behaviour. Return its length; 0 if the stretch has no key. */
static int write_key(Handler *h, int stretch) {
    int first = h->stretches[stretch].first, end = first + h->stretches[stretch].count, count = 0, names = 0;
    for (int position = first; position < end && !h->failure; position++) {
        add_to_key(h, &count, h->work_of[position]);
        if (position > first) add_waits(h, &count, position, first);
        for (int n = h->allocates.first[position]; n < h->allocates.first[position + 1]; n++)
            add_buffer(h, &count, h->allocates.items[n], stretch, &names);
        add_to_key(h, &count, -1);
        for (int n = h->frees.first[position]; n < h->frees.first[position + 1]; n++) {
            int buffer = h->frees.items[n];
            if (h->named_in[buffer] != stretch) { /* allocated before */
                if (h->allocators[buffer] < 0) return 0;
                add_to_key(h, &count, -1);
                add_buffer(h, &count, buffer, stretch, &names);
            }
            add_to_key(h, &count, h->name[buffer]);
        }
        add_to_key(h, &count, -2);
    }
    add_waits(h, &count, end, first);
    return count;
}

/* Return the recorded stretch with the key written last; if there is none, store `one` under it and return `one`. */
static Stretch *same_as(Handler *h, Stretch *one, int key_count) {
    size_t size = (size_t)key_count * sizeof(int);
    uint64_t hash = (uint64_t)key_count;
    for (int n = 0; n < key_count; n++) {
        hash = (hash ^ (uint32_t)h->key[n]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    int *head = &h->alike[hash & (uint64_t)(h->n_alike - 1)];
    for (int n = *head; n >= 0; n = h->stretches[n].next_alike) {
        Stretch *other = &h->stretches[n];
        if (other->hash == hash && other->key_count == key_count && !memcmp(other->key, h->key, size)) return other;
    }
    if (!(one->key = malloc(size))) { fail(h, "memory"); return one; }
    memcpy(one->key, h->key, size);
    one->key_count = key_count;
    one->hash = hash;
    one->next_alike = *head;
    *head = (int)(one - h->stretches);
    return one;
}

/* ---- recording ---- */

/* Record the state in which the worker `by` begins a stretch. */
static void note_begin(Handler *h, Stretch *one, int by) {
    one->done = calloc((size_t)h->n_workers, sizeof(Done));
    one->held = calloc((size_t)h->n_ports + 1, sizeof(Held));
    one->waited_ps = calloc((size_t)h->n_waited, sizeof(int64_t)); /* n_waited > 0: the barrier itself was waited for */
    if (!one->done || !one->held || !one->waited_ps) { fail(h, "memory"); return; }
    for (int w = 0; w < h->n_workers; w++) {
        Worker *worker = &h->workers[w];
        worker->place = -1;
        one->done[w] = (Done){.taken = h->queues[worker->queue].next, .busy_ps = worker->busy_ps};
        one->done[w].idle_ps = w == by ? 0 : idle_ps(h, worker); /* that of `by` has been added already */
    }
    for (int p = 0; p < h->n_ports; p++) {
        Port *port = &h->ports[p];
        port->most_bytes = port->used_bytes;
        int changes = port->history_count; /* includes an entry of this instant, which may still be overwritten */
        if (changes && port->history[changes - 1].time_ps == h->now_ps) changes--;
        one->held[p] = (Held){.used_bytes = port->used_bytes, .changes = {changes, 0}};
    }
    for (int n = 0; n < h->n_waited; n++) one->waited_ps[n] = h->waited_ps[h->waited_order[n]];
    one->n_waited = h->n_waited;
    one->begun_ps = h->now_ps;
    one->events = h->events;
    one->ended.first = h->n_ended;
    h->is_short = 0;
    h->noted = (int)(one - h->stretches);
}

/* Record the effects of a stretch, which the end of the instruction at `ended_by` completes. */
static void note_end(Handler *h, Stretch *one, int ended_by) {
    for (int position = one->first + 1; position < one->first + one->count; position++)
        if (h->released_by[position] < one->first) return;
    if (h->is_short || h->end_ps[one->first] == one->begun_ps) return;
    int64_t *waited_ps = realloc(one->waited_ps, (size_t)h->n_waited * sizeof(int64_t));
    if (!waited_ps) { fail(h, "memory"); return; }
    one->waited_ps = waited_ps;
    for (int n = 0; n < h->n_waited; n++)
        waited_ps[n] = h->waited_ps[h->waited_order[n]] - (n < one->n_waited ? waited_ps[n] : 0);
    one->n_waited = h->n_waited;
    for (int w = 0; w < h->n_workers; w++) {
        const Worker *worker = &h->workers[w];
        Done *done = &one->done[w];
        done->taken = h->queues[worker->queue].next - done->taken;
        done->place = worker->place;
        done->members = worker->members;
        done->busy_ps = worker->busy_ps - done->busy_ps;
        done->asked_ps = worker->asked_ps - one->begun_ps;
        if (!done->taken || !worker->is_pipelined) continue;
        done->free_since_ps = malloc((size_t)worker->free_count * sizeof(int64_t));
        if (!done->free_since_ps) { fail(h, "memory"); return; }
        for (int n = 0; n < worker->free_count; n++) done->free_since_ps[n] = worker->free_since_ps[n] - one->begun_ps;
    }
    for (int p = 0; p < h->n_ports; p++) {
        Held *held = &one->held[p];
        held->changes.count = h->ports[p].history_count - held->changes.first;
        held->most_bytes = h->ports[p].most_bytes - held->used_bytes;
        held->left_bytes = h->ports[p].used_bytes - held->used_bytes;
    }
    one->lasted_ps = h->now_ps - one->begun_ps;
    one->events = h->events - one->events;
    one->ended.count = h->n_ended - one->ended.first;
    one->ended_by = ended_by - one->first;
    one->is_known = 1;
}

/* ---- replay ---- */

static int has_space(Handler *h, const Stretch *known) {
    for (int p = 0; p < h->n_ports; p++)
        if (known->held[p].most_bytes > h->ports[p].capacity_bytes - h->ports[p].used_bytes) return 0;
    return 1;
}

static void repeat_instructions(Handler *h, const Stretch *known, int first, int64_t later_ps) {
    int moved = first - known->first;
    for (int n = known->first; n < known->first + known->count; n++) {
        h->issued_ps[n + moved] = h->issued_ps[n] + later_ps;
        h->start_ps[n + moved] = h->start_ps[n] + later_ps;
        h->end_ps[n + moved] = h->end_ps[n] + later_ps;
        h->startup_ps[n + moved] = h->startup_ps[n];
        h->released_by[n + moved] = h->released_by[n] + moved;
        h->limits[n + moved] = h->limits[n];
    }
    int end = first + known->count;
    for (int position = first; position < end; position++)
        for (int n = h->allocates.first[position]; n < h->allocates.first[position + 1]; n++)
            h->allocators[h->allocates.items[n]] = position;
    for (int n = h->frees.first[first]; n < h->frees.first[end]; n++) h->holders[h->frees.items[n]]--;
    h->unfinished -= known->count;
    h->repeated += known->count;
}

/* Replay a worker's part of a stretch, and let it wait for its next instruction; the stretch ends before `end`. */
static void repeat_worker(Handler *h, const Done *done, int w, int end) {
    Worker *worker = &h->workers[w];
    Queue *queue = &h->queues[worker->queue];
    if (done->taken) {
        if (done->place >= 0) /* correct the wait for its first instruction, which was longer or shorter this time */
            add_ps(h, &h->waited_ps[done->place], idle_ps(h, worker) - done->idle_ps, done->members);
        add_ps(h, &worker->busy_ps, done->busy_ps, 1);
        worker->asked_ps = h->now_ps + done->asked_ps;
        for (int n = 0; worker->is_pipelined && n < worker->free_count; n++) {
            int same = n + done->taken; /* channels leave at the front of the list and return at its end */
            worker->free_since_ps[n] = same < worker->free_count ? worker->free_since_ps[same]
                                                                 : h->now_ps + done->free_since_ps[n];
        }
        int next = queue->next - 1 + done->taken;
        queue->next = next < queue->count ? next + 1 : queue->count;
        if (next < queue->count) worker->position = queue->positions[next];
        if (worker->position > end) ready(h, worker->position, w, 0);
    } else if (worker->position > end) { /* it waited throughout: block it on its next unfinished dependency */
        int place = h->blocked_place[worker->position];
        if (h->end_ps[h->after.items[h->after.first[worker->position] + place]] >= 0)
            ready(h, worker->position, w, place);
    }
}

static void repeat_memory(Handler *h, const Held *held, Port *port, int64_t later_ps) {
    int64_t more_bytes = port->used_bytes - held->used_bytes;
    int end = held->changes.first + held->changes.count;
    for (int n = held->changes.first; n < end; n++) {
        Change change = port->history[n];
        if (n == end - 1) change.used_bytes = held->used_bytes + held->left_bytes; /* as it was before the barrier */
        note_used(h, port, change.time_ps + later_ps, change.used_bytes + more_bytes);
    }
    port->used_bytes += held->left_bytes;
}

/* Replay the recorded stretch `known` for the equal one at `first`, which the worker `by` begins. */
static void repeat(Handler *h, const Stretch *known, int first, int by) {
    int end = first + known->count;
    int64_t later_ps = h->now_ps - known->begun_ps, end_ps;
    if (__builtin_add_overflow(h->now_ps, known->lasted_ps, &end_ps)) { fail(h, "too late"); return; }
    repeat_instructions(h, known, first, later_ps);
    h->released_by[first] = h->workers[by].cause;
    h->workers[by].asked_ps = h->now_ps; /* its wait for the barrier has been added already */
    for (int w = 0; w < h->n_workers; w++) repeat_worker(h, &known->done[w], w, end);
    for (int p = 0; p < h->n_ports; p++) repeat_memory(h, &known->held[p], &h->ports[p], later_ps);
    for (int n = 0; n < known->n_waited; n++) add_ps(h, &h->waited_ps[h->waited_order[n]], known->waited_ps[n], 1);
    for (int n = 0; n < known->ended.count; n++) note_moved(h, h->ended[known->ended.first + n]);
    h->events += known->events - 1;
    after(h, known->lasted_ps, -1 - h->works[h->work_of[end]].queue, first + known->ended_by);
}

/* Return whether a worker, resumed by the end of the instruction at `ended`, begins a stretch; this completes the
 * recording of the previous one.
 */
static int begins_stretch(Handler *h, int w, int ended) {
    int number = h->stretch_at[h->workers[w].position], noted = h->noted;
    if (number < 0) return 0;
    h->noted = -1;
    if (noted >= 0 && noted == number - 1) note_end(h, &h->stretches[noted], ended);
    return h->stretches[number].count > 0;
}

/* Return whether the stretch that a worker begins has been replayed from a recording; only the event of the barrier
 * that ends it is then left. Otherwise start to record it.
 */
static int comes_again(Handler *h, int w) {
    int first = h->workers[w].position;
    Stretch *one = &h->stretches[h->stretch_at[first]];
    int key_count = write_key(h, (int)(one - h->stretches));
    if (!key_count || h->failure) return 0;
    const Stretch *known = same_as(h, one, key_count);
    if (h->failure) return 0;
    if (known == one) note_begin(h, one, w);
    if (known == one || !known->is_known || !has_space(h, known)) return 0;
    repeat(h, known, first, w);
    return 1;
}
