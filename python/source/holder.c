/* SPDX-License-Identifier: Apache-2.0 */
#include "holder.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static list bin;
static atomic_int bin_fd = -1;
static pid_t bin_process;

static char holder_freed_mark;
#define holder_freed ((ferry_promise *)(void *)&holder_freed_mark)

struct holder *holder_make(void)
{
    struct holder *holder = calloc(1, sizeof *holder);
    if (!holder) {
        PyErr_NoMemory();
        return NULL;
    }
    holder->references = 1;
    return holder;
}

struct holder *holder_of_view(PyObject *exporter, PyObject *readonly)
{
    int want = readonly == Py_None ? -1 : PyObject_IsTrue(readonly);
    if (readonly != Py_None && want < 0)
        return NULL;
    struct holder *holder = holder_make();
    if (!holder)
        return NULL;
    int flags = PyBUF_C_CONTIGUOUS;
    int result = -1;
    if (want != 1)
        result = PyObject_GetBuffer(exporter, &holder->view, flags | PyBUF_WRITABLE);
    /* Perhaps because it is read-only, for which NumPy has a ValueError. */
    if (result && want == -1 &&
        (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError)))
        PyErr_Clear();
    if (result && want != 0 && !PyErr_Occurred())
        result = PyObject_GetBuffer(exporter, &holder->view, flags);
    if (result) {
        free(holder);
        return NULL;
    }
    holder->memory = holder->view.buf;
    holder->size_bytes = (size_t)holder->view.len;
    holder->is_readonly = want == 1 || holder->view.readonly;
    return holder;
}

static void holder_let_go(struct holder *holder)
{
    if (holder->is_let_go)
        return;
    holder->is_let_go = true;
    /* It may be because of an exception, which what runs here must not see. */
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (holder->drop)
        holder->drop(holder->drop_arg);
    else if (holder->view.obj)
        PyBuffer_Release(&holder->view);
    PyErr_Restore(type, value, trace);
}

void holder_release(struct holder *holder)
{
    if (!holder || --holder->references)
        return;
    holder_let_go(holder);
    ferry_promise *promise = atomic_exchange(&holder->freed, NULL);
    if (promise != holder_freed)
        ferry_promise_release(promise);
    free(holder);
}

bool holder_tell(struct holder *holder, ferry_promise *promise)
{
    ferry_promise *none = NULL;
    if (atomic_compare_exchange_strong(&holder->freed, &none, promise))
        return true;
    if (none != holder_freed)
        return false;
    ferry_promise_resolve(promise, FERRY_OK, NULL);
    ferry_promise_release(promise);
    return true;
}

void bin_put(struct holder *holder)
{
    if (!list_push(&bin, &holder->node))
        return;
    int fd = atomic_load(&bin_fd);
    if (fd >= 0)
        eventfd_write(fd, 1);
}

void holder_free(void *arg, void *memory, size_t size_bytes)
{
    (void)memory, (void)size_bytes;
    struct holder *holder = arg;
    /* The promise first: once the holder is in the bin, it may be gone. */
    ferry_promise *promise = atomic_exchange(&holder->freed, holder_freed);
    bin_put(holder);
    if (promise) {
        ferry_promise_resolve(promise, FERRY_OK, NULL);
        ferry_promise_release(promise);
    }
}

void bin_empty(void)
{
    if (list_is_empty(&bin))
        return;
    /* What an exporter does when it is let go may come here again, with another list. */
    struct list_node *node = list_take(&bin);
    while (node) {
        struct holder *holder = (struct holder *)(void *)node;
        node = node->next;
        holder_let_go(holder);
        holder_release(holder);
    }
}

int bin_descriptor(void)
{
    if (atomic_load(&bin_fd) >= 0 && bin_process == getpid())
        return atomic_load(&bin_fd);
    /* In a fork's child the descriptor is the parent's. */
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    bin_process = getpid();
    atomic_store(&bin_fd, fd);
    return fd;
}

void bin_told(void)
{
    int fd = atomic_load(&bin_fd);
    eventfd_t count;
    if (fd >= 0)
        eventfd_read(fd, &count);
    bin_empty();
}
