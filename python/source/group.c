/* SPDX-License-Identifier: Apache-2.0 */
/* Group: the processes of a job. ferry/_group.py adds the types of values. */
#include "group.h"
#include "error.h"
#include "future.h"
#include "notice.h"
#include "numbers.h"
#include "options.h"
#include "span.h"
#include "type.h"

PyTypeObject *group_type;

static PyObject *group_wrap(engine_object *engine, ferry_group *group)
{
    group_object *self = PyObject_New(group_object, group_type);
    if (!self) {
        ferry_group_release(group);
        return NULL;
    }
    self->group = group;
    self->engine = (engine_object *)new_reference((PyObject *)engine);
    return (PyObject *)self;
}

/* What a join is given that is more than a number or a text. */
struct join_objects {
    PyObject *rank, *secret, *lease, *timeout, *linger, *events_max;
};

static bool read_kind(const char *text, ferry_group_kind *kind_p)
{
    *kind_p = strcmp(text, "open") == 0 ? FERRY_GROUP_OPEN : FERRY_GROUP_CLOSED;
    if (*kind_p == FERRY_GROUP_OPEN || strcmp(text, "closed") == 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "kind is \"closed\" or \"open\"");
    return false;
}

static bool read_join_objects(engine_object *self, ferry_group_options *options,
                              const struct join_objects *objects)
{
    if (objects->rank != Py_None) {
        if (!number_u32(objects->rank, "rank", &options->rank))
            return false;
        options->has_rank = true;
    }
    if (objects->events_max && !number_u32(objects->events_max, "events_max", &options->events_max))
        return false;
    if (objects->secret != Py_None) {
        char *secret;
        Py_ssize_t size_bytes;
        if (PyBytes_AsStringAndSize(objects->secret, &secret, &size_bytes))
            return false;
        options->secret = secret;
        options->secret_bytes = (size_t)size_bytes;
    }
    if (objects->lease != Py_None && !number_timeout_ns(objects->lease, &options->lease_ns))
        return false;
    if (objects->linger != Py_None) {
        if (!number_timeout_ns(objects->linger, &options->linger_ns))
            return false;
        if (options->linger_ns == 0)
            options->linger_ns = 1; /* zero is the default */
    }
    return number_deadline_ns(self, objects->timeout, &options->deadline_ns);
}

PyObject *engine_join(engine_object *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"store",
                               "job",
                               "size",
                               "size_min",
                               "rank",
                               "place",
                               "secret",
                               "lease",
                               "timeout",
                               "network",
                               "linger",
                               "device_count",
                               "store_user",
                               "store_password",
                               "store_ca_path",
                               "store_certificate_path",
                               "store_key_path",
                               "window_messages",
                               "window_bytes",
                               "unexpected_max",
                               "registration_cache_bytes",
                               "gpu_way",
                               "kind",
                               "events_max",
                               NULL};
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    struct join_objects objects = {Py_None, Py_None, Py_None, Py_None, Py_None, NULL};
    unsigned long long window_bytes = 0, registration_bytes = 0;
    const char *kind = "closed";
    int gpu_way = 0;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, names, "ss|$IIOzOOOzOIzzzzzIKIKisO:join", keywords, &options.store,
            &options.job, &options.size, &options.size_min, &objects.rank, &options.place,
            &objects.secret, &objects.lease, &objects.timeout, &options.network, &objects.linger,
            &options.device_count, &options.store_user, &options.store_password,
            &options.store_ca_path, &options.store_certificate_path, &options.store_key_path,
            &options.window_messages, &window_bytes, &options.unexpected_max, &registration_bytes,
            &gpu_way, &kind, &objects.events_max) ||
        !read_kind(kind, &options.kind) || !read_join_objects(self, &options, &objects))
        return NULL;
    options.window_bytes = (size_t)window_bytes;
    options.registration_cache_bytes = (size_t)registration_bytes;
    options.gpu_way = (ferry_gpu_way)gpu_way;
    ferry_group *group = NULL;
    ferry_future *joined = ferry_group_join(self->engine, &options, &group);
    if (!group) {
        raise_future(joined);
        ferry_future_release(joined);
        return NULL;
    }
    PyObject *made = group_wrap(self, group);
    PyObject *future = future_wrap(self, joined, NULL);
    PyObject *both = made && future ? PyTuple_Pack(2, made, future) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(future);
    return both;
}

static PyObject *group_close(group_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_group *group = self->group;
    self->group = NULL;
    ferry_group_release(group);
    return new_reference(Py_None);
}

static void group_dealloc(group_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ferry_group_release(self->group);
    Py_DECREF((PyObject *)self->engine);
    PyObject_Free(self);
    Py_DECREF(type);
}

bool group_is_open(const group_object *self)
{
    if (!self->group)
        PyErr_SetString(PyExc_ValueError, "the group was closed");
    return self->group != NULL;
}

typedef ferry_future *(*message_fn)(ferry_group *group, ferry_rank peer, ferry_tag tag,
                                    ferry_span span, const ferry_op_options *options);

/* send and recv: (peer, span, /, *, tag=0, **options) */
static PyObject *message(group_object *self, PyObject *const *arguments, Py_ssize_t count,
                         PyObject *names, message_fn fn)
{
    bool is_send = fn == ferry_send;
    struct own_keyword own[] = {{"tag", NULL}, {NULL, NULL}};
    struct operation_options made;
    ferry_rank peer;
    uint64_t tag = 0;
    ferry_span span;
    if (!group_is_open(self) || !options_read(&made, is_send ? "send" : "recv", self->engine,
                                              arguments, count, 2, names, own))
        return NULL;
    PyObject *result = NULL, *object = NULL;
    if (!number_u32(arguments[0], "peer", &peer) ||
        (own[0].value && !number_u64(own[0].value, "tag", &tag)))
        goto out;
    object = span_or_wrap(self->engine, arguments[1], is_send ? Py_True : Py_False);
    if (object && span_read(object, &span) && group_is_open(self))
        result =
            operation_wrap(self->engine, fn(self->group, peer, tag, span, &made.options), NULL);
out:
    Py_XDECREF(object);
    options_clear(&made);
    return result;
}

static PyObject *group_send(group_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    return message(self, arguments, count, names, ferry_send);
}

static PyObject *group_recv(group_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    return message(self, arguments, count, names, ferry_recv);
}

static PyObject *group_leave(group_object *self, PyObject *ignored)
{
    (void)ignored;
    return group_is_open(self) ? future_wrap(self->engine, ferry_group_leave(self->group), NULL)
                               : NULL;
}

static PyObject *group_barrier(group_object *self, PyObject *arguments)
{
    const char *name;
    PyObject *members, *timeout;
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    ferry_rank ranks[FERRY_GROUP_SIZE_MAX];
    if (!PyArg_ParseTuple(arguments, "sOO:_barrier", &name, &members, &timeout) ||
        !number_deadline_ns(self->engine, timeout, &options.deadline_ns))
        return NULL;
    PyObject *tuple = members == Py_None ? NULL : PySequence_Tuple(members);
    if (members != Py_None) {
        Py_ssize_t count = tuple ? PyTuple_Size(tuple) : -1;
        if (count > FERRY_GROUP_SIZE_MAX)
            PyErr_SetString(PyExc_ValueError, "more members than a group may have");
        for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++)
            number_u32(PyTuple_GetItem(tuple, i), "members", &ranks[i]);
        Py_XDECREF(tuple);
        if (PyErr_Occurred())
            return NULL;
        options.members = ranks;
        options.member_count = (uint32_t)count;
    }
    if (!group_is_open(self))
        return NULL;
    return future_wrap(self->engine, ferry_barrier(self->group, name, &options), NULL);
}

static PyObject *group_set(group_object *self, PyObject *arguments)
{
    const char *key, *data;
    Py_ssize_t size_bytes;
    PyObject *timeout;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "sy#O:_set", &key, &data, &size_bytes, &timeout) ||
        !number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    ferry_future *future = ferry_group_set(self->group, key, data, (size_t)size_bytes, deadline_ns);
    return future_wrap(self->engine, future, NULL);
}

typedef ferry_future *(*get_fn)(ferry_group *group, const char *key, int64_t deadline_ns);

static PyObject *get_by(group_object *self, PyObject *arguments, get_fn fn)
{
    const char *key;
    PyObject *timeout, *convert;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "sOO:_get", &key, &timeout, &convert) ||
        !number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    return future_wrap(self->engine, fn(self->group, key, deadline_ns), convert);
}

static PyObject *group_get(group_object *self, PyObject *arguments)
{
    return get_by(self, arguments, ferry_group_get);
}

static PyObject *group_try_get(group_object *self, PyObject *arguments)
{
    return get_by(self, arguments, ferry_group_try_get);
}

static PyObject *group_watch(group_object *self, PyObject *arguments)
{
    const char *key;
    unsigned long long seen;
    PyObject *timeout, *convert;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "sKOO:_watch", &key, &seen, &timeout, &convert) ||
        !number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    return future_wrap(self->engine, ferry_group_watch(self->group, key, seen, deadline_ns),
                       convert);
}

static PyObject *group_alive(group_object *self, PyObject *arguments)
{
    PyObject *timeout, *convert;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "OO:_alive", &timeout, &convert) ||
        !number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    return future_wrap(self->engine, ferry_group_alive(self->group, deadline_ns), convert);
}

static PyObject *group_next_event(group_object *self, PyObject *arguments)
{
    PyObject *timeout, *convert;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "OO:_next_event", &timeout, &convert) ||
        !number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    return future_wrap(self->engine, ferry_group_event_next(self->group, deadline_ns), convert);
}

static PyObject *group_give_notice(group_object *self, PyObject *ignored)
{
    (void)ignored;
    return group_is_open(self)
               ? future_wrap(self->engine, ferry_group_give_notice(self->group), NULL)
               : NULL;
}

static PyObject *group_step(group_object *self, PyObject *arguments)
{
    unsigned long long step;
    PyObject *timeout;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "KO:_step", &step, &timeout) ||
        !number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    return future_wrap(self->engine, ferry_group_step(self->group, step, deadline_ns), NULL);
}

static PyObject *group_nccl_pause(group_object *self, PyObject *timeout)
{
    int64_t deadline_ns;
    if (!number_deadline_ns(self->engine, timeout, &deadline_ns) || !group_is_open(self))
        return NULL;
    return future_wrap(self->engine, ferry_group_nccl_pause(self->group, deadline_ns), NULL);
}

static PyObject *group_nccl_resume(group_object *self, PyObject *ignored)
{
    (void)ignored;
    return group_is_open(self)
               ? future_wrap(self->engine, ferry_group_nccl_resume(self->group), NULL)
               : NULL;
}

static PyObject *group_look(group_object *self, PyObject *rank_object)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    ferry_rank rank;
    if (!number_u32(rank_object, "rank", &rank) || !group_is_open(self))
        return NULL;
    ferry_status status = ferry_group_member(self->group, rank, &info);
    if (status != FERRY_OK)
        return raise_status(status, "the group has no such rank, or was not joined");
    return Py_BuildValue("iIKOsLKKKK", (int)info.state, info.rank,
                         (unsigned long long)info.incarnation,
                         info.is_on_this_host ? Py_True : Py_False, info.host, (long long)info.pid,
                         (unsigned long long)info.ipc_bytes, (unsigned long long)info.staged_bytes,
                         (unsigned long long)info.nccl_bytes, (unsigned long long)info.nccl_groups);
}

static PyObject *group_get_rank(group_object *self, void *ignored)
{
    (void)ignored;
    return group_is_open(self) ? PyLong_FromUnsignedLong(ferry_group_rank(self->group)) : NULL;
}

static PyObject *group_get_size(group_object *self, void *ignored)
{
    (void)ignored;
    return group_is_open(self) ? PyLong_FromUnsignedLong(ferry_group_size(self->group)) : NULL;
}

static PyObject *group_get_stop_step(group_object *self, void *ignored)
{
    (void)ignored;
    if (!group_is_open(self))
        return NULL;
    uint64_t step = ferry_group_stop_step(self->group);
    return step == UINT64_MAX ? new_reference(Py_None) : PyLong_FromUnsignedLongLong(step);
}

static PyObject *group_get_engine(group_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->engine);
}

static PyObject *no_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    (void)type, (void)arguments, (void)names;
    PyErr_SetString(PyExc_TypeError, "Engine.join() makes a group");
    return NULL;
}

static PyMethodDef group_methods[] = {
    METHOD("send", group_send, METH_FASTCALL | METH_KEYWORDS,
           "send(peer, span, /, *, tag=0, **options): sends a span to a member."),
    METHOD("recv", group_recv, METH_FASTCALL | METH_KEYWORDS,
           "recv(peer, span, /, *, tag=0, **options): receives a message of the span's size."),
    METHOD("send_notice", group_send_notice, METH_FASTCALL | METH_KEYWORDS,
           "send_notice(peer, data, /, **options): sends bytes that need no receive."),
    METHOD("_next_notice", group_next_notice, METH_VARARGS, "_next_notice(timeout, convert)"),
    METHOD("_leave", group_leave, METH_NOARGS, "Leaves the group."),
    METHOD("_close", group_close, METH_NOARGS, "Releases the group's handle."),
    METHOD("_barrier", group_barrier, METH_VARARGS, "_barrier(name, members, timeout)"),
    METHOD("_set", group_set, METH_VARARGS, "_set(key, data, timeout)"),
    METHOD("_get", group_get, METH_VARARGS, "_get(key, timeout, convert)"),
    METHOD("_try_get", group_try_get, METH_VARARGS, "_try_get(key, timeout, convert)"),
    METHOD("_watch", group_watch, METH_VARARGS, "_watch(key, seen, timeout, convert)"),
    METHOD("_alive", group_alive, METH_VARARGS, "_alive(timeout, convert)"),
    METHOD("_next_event", group_next_event, METH_VARARGS, "_next_event(timeout, convert)"),
    METHOD("_nccl_pause", group_nccl_pause, METH_O, "ferry_group_nccl_pause"),
    METHOD("_nccl_resume", group_nccl_resume, METH_NOARGS, "ferry_group_nccl_resume"),
    METHOD("_step", group_step, METH_VARARGS, "_step(step, timeout)"),
    METHOD("_member", group_look, METH_O, "_member(rank)"),
    METHOD("give_notice", group_give_notice, METH_NOARGS, "This member has to go soon."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef group_getset[] = {
    {"rank", (getter)group_get_rank, NULL, "This member's rank.", NULL},
    {"size", (getter)group_get_size, NULL, "The number of members.", NULL},
    {"stop_step", (getter)group_get_stop_step, NULL, "The step to stop after, or None.", NULL},
    {"engine", (getter)group_get_engine, NULL, "The Engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot group_slots[] = {
    {Py_tp_doc, "The processes of a job."}, {Py_tp_new, no_new},
    {Py_tp_dealloc, group_dealloc},         {Py_tp_methods, group_methods},
    {Py_tp_getset, group_getset},           {0, NULL},
};

static PyType_Spec group_spec = {
    .name = "ferry._core.Group",
    .basicsize = sizeof(group_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = group_slots,
};

int group_add_type(PyObject *module)
{
    return type_add(module, &group_spec, &group_type);
}
