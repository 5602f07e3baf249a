/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: small messages that need no receive. ferry/_group.py adds the type of their value. */
#include "notice.h"
#include "future.h"
#include "numbers.h"
#include "options.h"

PyObject *group_send_notice(group_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    struct operation_options made;
    ferry_rank peer;
    if (!group_is_open(self) ||
        !options_read(&made, "send_notice", self->engine, arguments, count, 2, names, NULL))
        return NULL;
    PyObject *result = NULL;
    Py_buffer view; /* what it shows is copied in the call */
    if (number_u32(arguments[0], "peer", &peer) &&
        !PyObject_GetBuffer(arguments[1], &view, PyBUF_SIMPLE)) {
        if (group_is_open(self)) /* numbers and exporters may run anything */
            result = operation_wrap(
                self->engine,
                ferry_notice_send(self->group, peer, view.buf, (size_t)view.len, &made.options),
                NULL);
        PyBuffer_Release(&view);
    }
    options_clear(&made);
    return result;
}

PyObject *group_next_notice(group_object *self, PyObject *arguments)
{
    PyObject *timeout, *convert;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "OO:_next_notice", &timeout, &convert) ||
        !number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    return future_wrap(self->engine, ferry_notice_next(self->group, deadline_ns), convert);
}
