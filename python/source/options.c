/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "future.h"
#include "numbers.h"
#include "scope.h"
#include "span.h"
#include <stdlib.h>

/* Keeps an object until the operation has been submitted; takes the reference. */
static void keep(struct operation_options *made, PyObject *object)
{
    made->kept[made->kept_count++] = object;
}

static bool read_after(struct operation_options *made, PyObject *value)
{
    bool is_one = Py_TYPE(value) == future_type;
    PyObject *tuple = is_one ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
    if (!tuple)
        return false;
    keep(made, tuple);
    size_t count = (size_t)PyTuple_Size(tuple);
    made->after = count > OPTIONS_FEW ? malloc(count * sizeof *made->after) : made->few_after;
    if (!made->after) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)i);
        if (Py_TYPE(item) != future_type) {
            PyErr_Format(PyExc_TypeError, "after is to be Futures of ferry, not %R",
                         (PyObject *)Py_TYPE(item));
            return false;
        }
        made->after[i] = ((future_object *)item)->future;
    }
    made->options.after = made->after;
    made->options.after_count = count;
    return true;
}

/* Room for so many more accesses; false with MemoryError. */
static bool grow_accesses(struct operation_options *made, size_t count)
{
    size_t old = made->options.access_count;
    ferry_access *accesses = made->few_accesses;
    if (old + count > OPTIONS_FEW) {
        bool is_few = made->accesses == made->few_accesses;
        accesses = realloc(is_few ? NULL : made->accesses, (old + count) * sizeof *accesses);
        if (!accesses) {
            PyErr_NoMemory();
            return false;
        }
        if (is_few)
            memcpy(accesses, made->few_accesses, old * sizeof *accesses);
    }
    made->accesses = accesses;
    return true;
}

bool options_add_access(struct operation_options *made, const ferry_access *access)
{
    if (!grow_accesses(made, 1))
        return false;
    made->accesses[made->options.access_count++] = *access;
    made->options.accesses = made->accesses;
    return true;
}

/* Adds spans to the accesses; there are two calls at most, for reads and for writes. */
static bool read_accesses(struct operation_options *made, PyObject *value, ferry_access_mode mode)
{
    bool is_one = Py_TYPE(value) == span_type || Py_TYPE(value) == buffer_type;
    PyObject *tuple = is_one ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
    if (!tuple)
        return false;
    keep(made, tuple);
    size_t old = made->options.access_count;
    size_t count = (size_t)PyTuple_Size(tuple);
    if (!grow_accesses(made, count))
        return false;
    ferry_access *accesses = made->accesses;
    for (size_t i = 0; i < count; i++) {
        ferry_access *access = &accesses[old + i];
        access->mode = mode;
        if (!span_read(PyTuple_GetItem(tuple, (Py_ssize_t)i), &access->span))
            return false;
    }
    made->options.accesses = accesses;
    made->options.access_count = old + count;
    return true;
}

static bool read_priority(struct operation_options *made, PyObject *value)
{
    int64_t priority;
    if (!number_i64(value, "priority", &priority))
        return false;
    if (priority < -1 || priority > 1) {
        PyErr_SetString(PyExc_ValueError, "priority is -1 (low), 0 or 1 (high)");
        return false;
    }
    made->options.priority = (ferry_priority)priority;
    return true;
}

static bool read_label(struct operation_options *made, PyObject *value)
{
    if (value == Py_None)
        return true;
    PyObject *bytes = text_bytes(value, "label", &made->options.label);
    if (!bytes)
        return false;
    keep(made, bytes);
    made->options.flags |= FERRY_OP_LABEL_COPIED;
    return true;
}

static bool read_timeout(struct operation_options *made, const engine_object *engine,
                         PyObject *value)
{
    return value == Py_None || number_deadline_ns(engine, value, &made->options.deadline_ns);
}

/* The caller has the Scope among its arguments while the operation is submitted. */
static bool read_scope(struct operation_options *made, PyObject *value)
{
    if (value == Py_None)
        return true;
    if (!PyObject_TypeCheck(value, scope_type)) {
        PyErr_Format(PyExc_TypeError, "scope is to be a Scope, not %R", (PyObject *)Py_TYPE(value));
        return false;
    }
    made->options.scope = ((scope_object *)value)->scope;
    return true;
}

static bool read_untracked(struct operation_options *made, PyObject *value)
{
    int is_untracked = PyObject_IsTrue(value);
    if (is_untracked > 0)
        made->options.flags |= FERRY_OP_UNTRACKED;
    return is_untracked >= 0;
}

static bool read_keyword(struct operation_options *made, const char *function,
                         const engine_object *engine, PyObject *name, PyObject *value,
                         struct own_keyword *own)
{
#define IS(text_) (PyUnicode_CompareWithASCIIString(name, text_) == 0)
    if (IS("after"))
        return read_after(made, value);
    if (IS("reads"))
        return read_accesses(made, value, FERRY_READ);
    if (IS("writes"))
        return read_accesses(made, value, FERRY_WRITE);
    if (IS("timeout"))
        return read_timeout(made, engine, value);
    if (IS("deadline_ns"))
        return number_i64(value, "deadline_ns", &made->options.deadline_ns);
    if (IS("label"))
        return read_label(made, value);
    if (IS("priority"))
        return read_priority(made, value);
    if (IS("user_data"))
        return number_u64(value, "user_data", &made->options.user_data);
    if (IS("scope"))
        return read_scope(made, value);
    if (IS("untracked"))
        return read_untracked(made, value);
    for (; own && own->name; own++)
        if (IS(own->name)) {
            own->value = value;
            return true;
        }
#undef IS
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
    return false;
}

bool options_read(struct operation_options *made, const char *function, const engine_object *engine,
                  PyObject *const *arguments, Py_ssize_t count, Py_ssize_t positional_count,
                  PyObject *names, struct own_keyword *own)
{
    made->options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    made->kept_count = 0;
    made->after = made->few_after;
    made->accesses = made->few_accesses;
    if (count != positional_count) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd positional arguments but %zd were given",
                     function, positional_count, count);
        return false;
    }
    Py_ssize_t keyword_count = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < keyword_count; i++)
        if (!read_keyword(made, function, engine, PyTuple_GetItem(names, i), arguments[count + i],
                          own)) {
            options_clear(made);
            return false;
        }
    return true;
}

void options_clear(struct operation_options *made)
{
    if (made->after != made->few_after)
        free(made->after);
    if (made->accesses != made->few_accesses)
        free(made->accesses);
    while (made->kept_count)
        Py_DECREF(made->kept[--made->kept_count]);
}
