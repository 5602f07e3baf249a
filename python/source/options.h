/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keywords that all operations take: after, reads, writes, timeout, deadline_ns, label,
 * priority, user_data, scope, untracked.
 */
#ifndef FERRY_PYTHON_OPTIONS_H
#define FERRY_PYTHON_OPTIONS_H

#include "engine.h"

#define OPTIONS_FEW 4

struct operation_options {
    ferry_op_options options;
    PyObject *kept[4]; /* what the pointers in `options` point into */
    int kept_count;
    ferry_future **after;
    ferry_access *accesses;
    ferry_future *few_after[OPTIONS_FEW];
    ferry_access few_accesses[OPTIONS_FEW];
};

/* One more keyword, of the operation's own. */
struct own_keyword {
    const char *name;
    PyObject *value; /* NULL if it was not given */
};

/*
 * Reads the keywords behind `count` positional arguments, of which there have to be
 * `positional_count`. False with an exception set. After true the caller calls options_clear().
 */
bool options_read(struct operation_options *made, const char *function, const engine_object *engine,
                  PyObject *const *arguments, Py_ssize_t count, Py_ssize_t positional_count,
                  PyObject *names, struct own_keyword *own);
void options_clear(struct operation_options *made);

/* One more access; false with MemoryError. */
bool options_add_access(struct operation_options *made, const ferry_access *access);

#endif
