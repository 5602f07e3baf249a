/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry for Python, the part in C. Three rules hold everywhere:
 *  - No thread of ferry's runs Python code or takes the interpreter's lock. What ferry tells by a
 *    callback is put on a lock-free list (list.h), and a thread that has the interpreter's lock
 *    takes it from there. So ferry never waits for Python, also not while the interpreter ends.
 *  - Calls that may block (shutdown, wait, allocation, batches) let the interpreter's lock go.
 *  - Every object that holds a handle of ferry's holds its Engine, so no call follows the engine's
 *    release.
 */
#ifndef FERRY_PYTHON_CORE_H
#define FERRY_PYTHON_CORE_H

#include "abi.h"
#include <ferry/ferry.h>

/* What ferry/__init__.py gives to _setup(). */
struct core_hooks {
    PyObject *make_error; /* (status, domain, native_code, op, rank, label, message, cause) */
    PyObject *wait;       /* a generator function: waits for a pending Future in an event loop */
};
extern struct core_hooks core_hooks;

typedef struct engine_object {
    PyObject_HEAD ferry_engine *engine;
    ferry_op *scratch; /* room for a batch, kept for the next one */
    bool is_shut_down; /* the shutdown has succeeded */
} engine_object;

typedef struct future_object {
    PyObject_HEAD ferry_future *future;
    engine_object *engine;
    PyObject *convert; /* called with the Future for its result, or NULL: the result is None */
    bool is_operation; /* ends by itself, so that another operation may wait for it */
} future_object;

typedef struct buffer_object {
    PyObject_HEAD ferry_buffer *buffer; /* NULL after close() */
    engine_object *engine;
    struct holder *holder; /* of the exporter; NULL: ferry's own memory */
    Py_ssize_t exports;    /* views of this buffer that Python has */
    bool is_readonly;
    bool is_on_host;
} buffer_object;

typedef struct span_object {
    PyObject_HEAD buffer_object *buffer;
    size_t offset_bytes;
    size_t size_bytes;
} span_object;

typedef struct scope_object {
    PyObject_HEAD ferry_scope *scope;
    engine_object *engine;
} scope_object;

extern PyTypeObject *engine_type, *future_type, *buffer_type, *span_type, *promise_type,
    *completions_type, *group_type, *scope_type;

int engine_add_type(PyObject *module);
int future_add_type(PyObject *module);
int promise_add_type(PyObject *module);
int buffer_add_type(PyObject *module);
int span_add_type(PyObject *module);
int completions_add_type(PyObject *module);
int group_add_type(PyObject *module);
int scope_add_type(PyObject *module);

/* Makes a type of a spec, adds it to the module and keeps it in *type_p. */
int core_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type_p);

/* error.c: each sets a Python exception and returns NULL. */
PyObject *raise_status(ferry_status status, const char *message);
PyObject *raise_error(ferry_error *error); /* releases it */
PyObject *raise_future(const ferry_future *future);
/* The exception of a future that failed: a new reference, or NULL with an exception set. */
PyObject *future_exception(const ferry_future *future);

/*
 * A Future for what an operation of ferry's returned; takes the reference. If the operation was
 * refused, raises why. `convert` is borrowed, or NULL.
 */
PyObject *future_wrap(engine_object *engine, ferry_future *future, PyObject *convert);
/* The same for what is an operation, and no request or promise. */
PyObject *operation_wrap(engine_object *engine, ferry_future *future, PyObject *convert);
PyObject *promise_wrap(engine_object *engine, ferry_promise *promise);

/* numbers.c: of arguments. Each returns false with an exception set. */
bool number_size(PyObject *object, const char *name, size_t *value_p);
bool number_u64(PyObject *object, const char *name, uint64_t *value_p);
bool number_u32(PyObject *object, const char *name, uint32_t *value_p);
bool number_i64(PyObject *object, const char *name, int64_t *value_p);
/* Seconds, or None for ever (-1), as relative nanoseconds. */
bool number_timeout_ns(PyObject *object, int64_t *timeout_ns_p);
/* Seconds from now, or None for no deadline (0), as a deadline of the engine's clock. */
bool number_deadline_ns(const engine_object *engine, PyObject *seconds, int64_t *deadline_ns_p);
/* A new reference to bytes, which own the text at *text_p. */
PyObject *text_bytes(PyObject *object, const char *name, const char **text_p);

/* buffer.c */
/* The span of a Buffer or Span; false with TypeError or ValueError (closed) set. */
bool span_read(PyObject *object, ferry_span *span_p);
/* A Buffer that wraps an exporter's memory; device NULL: where the memory is. */
PyObject *buffer_wrap(engine_object *engine, PyObject *exporter, PyObject *readonly,
                      const char *device);
/* A Buffer as the options say, of memory that ferry allocates. */
PyObject *buffer_make(engine_object *engine, const ferry_buffer_options *options,
                      ferry_device *device);
PyObject *buffer_dlpack(buffer_object *self, PyObject *arguments, PyObject *names);
PyObject *buffer_dlpack_device(buffer_object *self, PyObject *ignored);

/*
 * dlpack.c: a holder of an exporter's tensor; NULL with an exception.
 *  is_cuda  whether the exporter says that its memory is a GPU's
 */
struct holder *dlpack_take(PyObject *exporter, bool is_cuda, bool *is_cuda_p, int *index_p);

/* engine.c: a device by its name; NULL with an exception. */
ferry_device *engine_device(const engine_object *self, const char *name);

/* Methods of the Engine: copies.c, call.c, group.c. */
PyObject *engine_copy(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *names);
PyObject *engine_copy_rows(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                           PyObject *names);
PyObject *engine_copy_pairs(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names);
PyObject *engine_copy_blocks(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names);
PyObject *engine_nop(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *names);
PyObject *engine_call(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *names);
PyObject *engine_join(engine_object *self, PyObject *arguments, PyObject *names);

#endif
