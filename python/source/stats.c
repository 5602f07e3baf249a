/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"
#include "error.h"

/* False with an exception set. */
static bool put(PyObject *dict, const char *name, uint64_t number)
{
    PyObject *value = PyLong_FromUnsignedLongLong(number);
    bool is_put = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return is_put;
}

static PyObject *by_kind(const ferry_stats *stats)
{
    PyObject *dict = PyDict_New();
    for (int kind = 0; dict && kind < FERRY_STATS_KINDS; kind++) {
        if (stats->resolved_by_kind[kind] != 0 &&
            !put(dict, ferry_op_kind_name((ferry_op_kind)kind), stats->resolved_by_kind[kind]))
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *by_way(const ferry_stats *stats)
{
    PyObject *dict = PyDict_New();
    for (int way = 0; dict && way < FERRY_WAYS; way++) {
        if (stats->bytes_by_way[way] != 0 &&
            !put(dict, ferry_way_name((ferry_way)way), stats->bytes_by_way[way]))
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *by_status(const ferry_stats *stats)
{
    PyObject *dict = PyDict_New();
    for (uint64_t i = 0; dict && i < stats->failure_count; i++) {
        const ferry_stats_failure *failure = &stats->failures[i];
        if (!put(dict, ferry_status_name(failure->status), failure->count))
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *latencies(const ferry_stats *stats)
{
    PyObject *counts = PyTuple_New(FERRY_STATS_BUCKETS);
    for (int i = 0; counts && i < FERRY_STATS_BUCKETS; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(stats->latency_counts[i]);
        if (!count || PyTuple_SetItem(counts, i, count))
            Py_CLEAR(counts);
    }
    return counts;
}

PyObject *stats_tuple(const engine_object *engine, const ferry_scope *scope)
{
    ferry_stats stats = FERRY_STATS_INIT;
    ferry_status status = ferry_stats_read(engine->engine, scope, &stats);
    if (status != FERRY_OK)
        return raise_status(
            status, status == FERRY_E_UNSUPPORTED ? "the engine was made without stats=1" : NULL);
    PyObject *kinds = by_kind(&stats), *ways = kinds ? by_way(&stats) : NULL;
    PyObject *failures = ways ? by_status(&stats) : NULL;
    PyObject *counts = failures ? latencies(&stats) : NULL;
    PyObject *made = NULL;
    if (counts)
        made = Py_BuildValue(
            "(KKKOOOKKKO)", (unsigned long long)stats.entered, (unsigned long long)stats.resolved,
            (unsigned long long)stats.in_flight, kinds, ways, failures,
            (unsigned long long)stats.latency_every, (unsigned long long)stats.latency_count,
            (unsigned long long)stats.latency_sum_ns, counts);
    Py_XDECREF(kinds);
    Py_XDECREF(ways);
    Py_XDECREF(failures);
    Py_XDECREF(counts);
    return made;
}
