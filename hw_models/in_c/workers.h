/* Instructions and the workers that run them: a port of hw_models/simulation/running.py, units.py and pipelining.py.
 * A worker takes instructions off its queue until it has to wait; an event resumes it.
 */

/* ---- instructions ---- */

/* Return whether all dependencies of an instruction have ended, given that the first `ended` have; otherwise block its
 * worker `w` on the first that has not.
 */
static int ready(Handler *h, int position, int w, int ended) {
    int first = h->after.first[position], count = h->after.first[position + 1] - first;
    for (int place = ended; place < count; place++) {
        int before = h->after.items[first + place];
        if (h->end_ps[before] < 0) {
            h->blocked_place[position] = place;
            h->blocked_worker[position] = w;
            h->blocked_next[position] = h->blocked_head[before];
            h->blocked_head[before] = position;
            return 0;
        }
    }
    return 1;
}

static void start(Handler *h, int position, int cause, int64_t startup_ps) {
    h->start_ps[position] = h->now_ps;
    if (h->issued_ps[position] < 0) h->issued_ps[position] = h->now_ps;
    h->released_by[position] = cause;
    h->startup_ps[position] = startup_ps;
}

static void finish(Handler *h, int position, int limit) {
    h->end_ps[position] = h->now_ps;
    h->limits[position] = limit;
    h->unfinished--;
    int blocked = h->blocked_head[position];
    h->blocked_head[position] = NOBODY;
    while (blocked >= 0) { /* take the remaining successor with the lowest position */
        int *link = &blocked, *least = &blocked;
        for (; *link >= 0; link = &h->blocked_next[*link]) if (*link < *least) least = link;
        int waiting = *least;
        *least = h->blocked_next[waiting];
        int place = h->blocked_place[waiting], w = h->blocked_worker[waiting];
        if (ready(h, waiting, w, place + 1)) after(h, 0, -1 - w, position);
    }
    for (int n = h->frees.first[position]; n < h->frees.first[position + 1]; n++) {
        int buffer = h->frees.items[n];
        if (--h->holders[buffer]) continue;
        int allocator = h->allocators[buffer];
        if (allocator < 0 || h->issued_ps[allocator] < 0) { fail_program(h, "a buffer is freed before it is allocated"); return; }
        give_back(h, buffer, position);
    }
}

/* ---- workers ---- */

static void new_flow(Handler *h, int w, int position, int part, int64_t *delay_ps) {
    int number = h->first_flow[position] + part;
    Flow *flow = &h->flows[number];
    *flow = (Flow){0};
    flow->speed = 1.0;
    flow->demand = h->works[h->work_of[position]].parts.first + part;
    flow->worker = w;
    flow->position = position;
    if (delay_ps) after(h, *delay_ps, number, 0);
    else flow_starts(h, number);
}

/* Return how long a worker has been idle since its last request, summed over its channels. */
static int64_t idle_ps(Handler *h, const Worker *worker) {
    if (!worker->is_pipelined) return h->now_ps - worker->asked_ps;
    int64_t sum_ps = 0;
    for (int n = 0; n < worker->free_count; n++) {
        int64_t since_ps = worker->free_since_ps[n];
        add_ps(h, &sum_ps, h->now_ps - (worker->asked_ps > since_ps ? worker->asked_ps : since_ps), 1);
    }
    return sum_ps;
}

static void note_wait(Handler *h, Worker *worker, int what) {
    int place = worker->kind * (h->n_kinds + 1) + what, members = h->works[h->work_of[worker->position]].members;
    if (h->waited_ps[place] < 0) {
        h->waited_ps[place] = 0;
        h->waited_order[h->n_waited++] = place;
    }
    add_ps(h, &h->waited_ps[place], idle_ps(h, worker), members);
}

/* Finish one part (a group of equivalent members) of a server's instruction, which ends with its last part. */
static void done(Handler *h, Worker *worker, int demand, int limit) {
    add_ps(h, &worker->busy_ps, h->now_ps - h->start_ps[worker->position], h->demands[demand].members);
    if (--worker->at_work) return;
    worker->freed_by = worker->position;
    finish(h, worker->position, limit);
}

/* Start an instruction on a free channel of a pipelined server. */
static void serve(Handler *h, int w, int position, int cause) {
    const Work *work = &h->works[h->work_of[position]];
    int64_t left_ps = work->startup_ps - (h->now_ps - h->issued_ps[position]);
    if (left_ps < 0) left_ps = 0;
    start(h, position, cause, left_ps);
    h->parts_left[position] = work->parts.count;
    for (int part = 0; part < work->parts.count; part++) new_flow(h, w, position, part, &left_ps);
}

static int begin(Handler *h, int w) {
    Worker *worker = &h->workers[w];
    int position = worker->position;
    const Work *work = &h->works[h->work_of[position]];
    if (worker->is_pipelined) {
        h->issued_ps[position] = h->now_ps;
        worker->issued++;
        worker->freed_by = worker->cause;
        if (worker->free_count) {
            memmove(worker->free_since_ps, worker->free_since_ps + 1, (size_t)--worker->free_count * sizeof(int64_t));
            serve(h, w, position, worker->cause);
        } else worker->backlog[(worker->backlog_next + worker->backlog_count++) % worker->most_issued] = position;
        worker->is_full = worker->issued == worker->most_issued;
        return !worker->is_full;
    }
    start(h, position, worker->cause, work->startup_ps);
    worker->at_work = work->parts.count;
    for (int part = 0; part < work->parts.count; part++) {
        int demand = work->parts.first + part;
        int64_t startup_ps = h->demands[demand].startup_ps;
        if (startup_ps) new_flow(h, w, position, part, &startup_ps);
        else if (h->demands[demand].moves) new_flow(h, w, position, part, NULL);
        else done(h, worker, demand, h->demands[demand].limit);
    }
    return !worker->at_work;
}

static int with_inputs(Handler *h, int w) {
    Worker *worker = &h->workers[w];
    int position = worker->position, first = h->allocates.first[position], end = h->allocates.first[position + 1];
    if (first == end) return begin(h, w);
    worker->asked_ps = h->now_ps;
    for (int n = first; n < end; n++) {
        h->allocators[h->allocates.items[n]] = position;
        ask(h, w, position, h->allocates.items[n]);
    }
    return 0;
}

static void take(Handler *h, int w) {
    Worker *worker = &h->workers[w];
    Queue *queue = &h->queues[worker->queue];
    while (queue->next < queue->count && !h->failure) {
        worker->position = queue->positions[queue->next++];
        worker->asked_ps = h->now_ps;
        worker->cause = worker->freed_by;
        if (!ready(h, worker->position, w, 0) || !with_inputs(h, w)) return;
    }
}

/* Resume a worker whose buffers are all allocated, the last in space freed by the instruction at `freed_by`. */
static void space_there(Handler *h, int w, int freed_by) {
    Worker *worker = &h->workers[w];
    if (h->now_ps > worker->asked_ps) {
        worker->cause = freed_by;
        note_wait(h, worker, h->n_kinds);
    }
    if (begin(h, w)) take(h, w);
}

/* Tell a worker that one of its flows has ended; it continues if it waited for that. */
static void moved(Handler *h, int number, int limit) {
    const Flow *flow = &h->flows[number];
    Worker *worker = &h->workers[flow->worker];
    if (!worker->is_pipelined) {
        done(h, worker, flow->demand, limit);
        if (!worker->at_work) take(h, flow->worker);
        return;
    }
    int position = flow->position;
    add_ps(h, &worker->busy_ps, h->now_ps - h->start_ps[position], h->demands[flow->demand].members);
    if (--h->parts_left[position]) return;
    worker->issued--;
    finish(h, position, limit);
    if (worker->backlog_count) {
        int next = worker->backlog[worker->backlog_next];
        worker->backlog_next = (worker->backlog_next + 1) % worker->most_issued;
        worker->backlog_count--;
        serve(h, flow->worker, next, position);
    } else worker->free_since_ps[worker->free_count++] = h->now_ps;
    if (worker->is_full) {
        worker->is_full = 0;
        worker->freed_by = position;
        take(h, flow->worker);
    }
}

static void take_turn(Handler *h, Turn turn) {
    if (is_void(h, turn)) return;
    if (turn.actor < 0) { /* a worker whose last dependency, the instruction `turn`, has ended */
        int w = -1 - turn.actor;
        h->workers[w].cause = turn.turn;
        note_wait(h, &h->workers[w], h->works[h->work_of[turn.turn]].kind);
        if (with_inputs(h, w)) take(h, w);
        return;
    }
    const Flow *flow = &h->flows[turn.actor];
    if (turn.turn) flow_ends(h, turn.actor);
    else if (h->demands[flow->demand].moves) flow_starts(h, turn.actor);
    else moved(h, turn.actor, h->demands[flow->demand].limit);
}
