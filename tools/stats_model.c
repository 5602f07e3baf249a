/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stats_model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static __attribute__((format(printf, 2, 3))) bool complain(char why[STATS_WHY_BYTES],
                                                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, STATS_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= STATS_COUNT_MAX;
}

static bool take_number(const stats_model *model, const char *name, int64_t *to,
                        char why[STATS_WHY_BYTES])
{
    const json_t *value = json_object_get(model->document, name);
    if (!is_count(value))
        return complain(why, "garbage was answered: \"%s\" is no count", name);
    *to = json_integer_value(value);
    return true;
}

static bool take_counts(const stats_model *model, const char *name, json_t **to,
                        char why[STATS_WHY_BYTES])
{
    json_t *counts = json_object_get(model->document, name);
    const char *key;
    json_t *value;
    if (!json_is_object(counts))
        return complain(why, "garbage was answered: \"%s\" is no object", name);
    json_object_foreach(counts, key, value)
    {
        if (!is_count(value))
            return complain(why, "garbage was answered: \"%s\" has what is no count", name);
    }
    *to = counts;
    return true;
}

static bool take_buckets(stats_model *model, char why[STATS_WHY_BYTES])
{
    const json_t *buckets = json_object_get(model->document, "latency_counts");
    int64_t left = STATS_COUNT_MAX; /* of all buckets together */
    if (!json_is_array(buckets) || json_array_size(buckets) != STATS_BUCKETS)
        return complain(why, "garbage was answered: \"latency_counts\" has not %d buckets",
                        STATS_BUCKETS);
    for (size_t i = 0; i < STATS_BUCKETS; i++) {
        const json_t *count = json_array_get(buckets, i);
        if (!is_count(count) || json_integer_value(count) > left)
            return complain(why, "garbage was answered: bucket %zu is no count", i);
        left -= json_integer_value(count);
        model->latency_counts[i] = json_integer_value(count);
    }
    return true;
}

static bool take_format(stats_model *model, char why[STATS_WHY_BYTES])
{
    const json_t *format = json_object_get(model->document, "format");
    model->version = json_string_value(json_object_get(model->document, "version"));
    if (!json_is_integer(format) || !model->version)
        return complain(why, "garbage was answered: no \"format\", or no \"version\"");
    if (json_integer_value(format) == STATS_FORMAT)
        return true;
    return complain(why,
                    "it answers in format %lld, and this program reads format %d: take the `ferry' "
                    "of the process's version",
                    (long long)json_integer_value(format), STATS_FORMAT);
}

bool stats_model_take(stats_model *model, json_t *document, char why[STATS_WHY_BYTES])
{
    *model = (stats_model){.document = document};
    bool is_whole = take_format(model, why) && take_number(model, "pid", &model->pid, why) &&
                    take_number(model, "engine", &model->engine, why) &&
                    take_number(model, "time_ns", &model->time_ns, why) &&
                    take_number(model, "entered", &model->entered, why) &&
                    take_number(model, "resolved", &model->resolved, why) &&
                    take_number(model, "in_flight", &model->in_flight, why) &&
                    take_counts(model, "resolved_by_kind", &model->kinds, why) &&
                    take_counts(model, "bytes_by_way", &model->ways, why) &&
                    take_counts(model, "failures", &model->failures, why) &&
                    take_number(model, "latency_every", &model->latency_every, why) &&
                    take_number(model, "latency_count", &model->latency_count, why) &&
                    take_number(model, "latency_sum_ns", &model->latency_sum_ns, why) &&
                    take_buckets(model, why);
    if (!is_whole)
        stats_model_release(model);
    return is_whole;
}

void stats_model_release(stats_model *model)
{
    json_decref(model->document);
    *model = (stats_model){0};
}

int64_t stats_model_count(const json_t *counts, const char *name)
{
    return json_integer_value(json_object_get(counts, name));
}

/* Counts of a liar could exceed the sum's type: then it stays at its end. */
static int64_t add(int64_t left, int64_t right)
{
    return left > INT64_MAX - right ? INT64_MAX : left + right;
}

int64_t stats_model_sum(json_t *counts)
{
    int64_t sum = 0;
    const char *name;
    json_t *count;
    json_object_foreach(counts, name, count) sum = add(sum, json_integer_value(count));
    return sum;
}

double stats_model_latency_ns(const stats_model *model, double share)
{
    double all = 0, seen = 0;
    for (size_t i = 0; i < STATS_BUCKETS; i++)
        all += (double)model->latency_counts[i];
    for (size_t i = 0; i < STATS_BUCKETS && all > 0; i++) {
        seen += (double)model->latency_counts[i];
        if (seen > 0 && seen >= all * share)
            return ldexp(1, (int)i + 1);
    }
    return 0;
}
