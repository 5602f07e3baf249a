/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace, with a trace file open:
 *   file          cost of a record in the recording thread: chains with and without a file, rounds
 *                 alternating; what is dropped costs the same
 *   file-written  records a second that come into the file, none dropped: they fit into the ring,
 *                 and the time is that from the first submit until the file is closed
 *   file-dropped  share of records dropped when chains follow each other without a rest
 *   file-asleep   what a nop costs more that has to wake the file's thread: one every 20 ms
 */
#include "bench/bench.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NODES 10000
#define POINTS 5 /* of a node: submitted ready issued resolved quiet */
#define RING_RECORDS (UINT32_C(1) << 20)
#define WRITTEN_NODES 100000
#define ASLEEP_NS 20000000

static char path[] = "/tmp/ferry-bench.XXXXXX";

static void open_file(void)
{
    bench_check(ferry_trace_open(path), "ferry_trace_open");
}

static void close_file(void)
{
    bench_check(ferry_trace_close(), "ferry_trace_close");
}

/* Counts of the file's last object. */
static void read_end(double *records_p, double *dropped_p)
{
    char tail[1024];
    FILE *file = fopen(path, "re");
    if (file == NULL || fseek(file, -(long)(sizeof tail - 1), SEEK_END) != 0)
        bench_fail("trace: %s cannot be read", path);
    tail[fread(tail, 1, sizeof tail - 1, file)] = '\0';
    (void)fclose(file);
    const char *end = strstr(tail, "{\"name\":\"ferry_end\"");
    json_t *object = end == NULL ? NULL : json_loads(end, JSON_DISABLE_EOF_CHECK, NULL);
    if (object == NULL)
        bench_fail("trace: %s has no end", path);
    const json_t *counts = json_object_get(object, "args");
    *records_p = json_number_value(json_object_get(counts, "records"));
    *dropped_p = json_number_value(json_object_get(counts, "dropped"));
    json_decref(object);
}

static void run_cost(bool is_quick)
{
    ferry_engine *engine = bench_engine_open(NULL);
    bench_samples point = {0};
    int rounds = is_quick ? 51 : 201;
    for (int round = -5; round < rounds; round++) {
        double off_ns = (double)bench_chain_ns(engine, NODES, false) / NODES;
        open_file();
        double on_ns = (double)bench_chain_ns(engine, NODES, false) / NODES;
        close_file();
        if (round >= 0) /* else a warm-up */
            bench_samples_add(&point, (on_ns - off_ns) / POINTS);
    }
    bench_report((bench_key){"trace", "file", "latency_ns", ""}, &point);
    bench_samples_free(&point);
    bench_engine_close(engine);
}

static void run_written(bool is_quick)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.trace_records = RING_RECORDS;
    ferry_engine *engine = bench_engine_open(&options);
    bench_samples rate = {.larger_is_better = true};
    int rounds = is_quick ? 3 : 11;
    for (int round = -1; round < rounds; round++) {
        double records, dropped;
        open_file();
        int64_t start_ns = bench_now_ns();
        (void)bench_chain_ns(engine, WRITTEN_NODES, false);
        close_file();
        int64_t taken_ns = bench_now_ns() - start_ns;
        read_end(&records, &dropped);
        if (dropped != 0)
            bench_fail("trace: %.0f records were dropped", dropped);
        if (round >= 0)
            bench_samples_add(&rate, records / (double)taken_ns * 1e9);
    }
    bench_report((bench_key){"trace", "file-written", "records_per_s", ""}, &rate);
    bench_samples_free(&rate);
    bench_engine_close(engine);
}

static void run_dropped(bool is_quick)
{
    ferry_engine *engine = bench_engine_open(NULL);
    double records, dropped;
    open_file();
    for (int i = 0; i < (is_quick ? 20 : 100); i++)
        (void)bench_chain_ns(engine, NODES, false);
    close_file();
    read_end(&records, &dropped);
    bench_report_value((bench_key){"trace", "file-dropped", "ratio", ""},
                       dropped / (records + dropped));
    bench_engine_close(engine);
}

static double rested_nop_ns(ferry_engine *engine)
{
    bench_sleep_ns(ASLEEP_NS);
    int64_t start_ns = bench_now_ns();
    ferry_future *nop = ferry_nop(engine, NULL);
    int64_t taken_ns = bench_now_ns() - start_ns;
    bench_finish(nop);
    return (double)taken_ns;
}

static void run_asleep(bool is_quick)
{
    ferry_engine *engine = bench_engine_open(NULL);
    bench_samples wake = {0};
    int rounds = is_quick ? 21 : 101;
    for (int round = 0; round < rounds; round++) {
        double off_ns = rested_nop_ns(engine);
        open_file();
        bench_samples_add(&wake, rested_nop_ns(engine) - off_ns);
        close_file();
    }
    bench_report((bench_key){"trace", "file-asleep", "latency_ns", ""}, &wake);
    bench_samples_free(&wake);
    bench_engine_close(engine);
}

void bench_trace_file(bool is_quick)
{
    int fd = mkstemp(path);
    if (fd < 0)
        bench_fail("trace: no file in /tmp");
    (void)close(fd);
    run_cost(is_quick);
    run_written(is_quick);
    run_dropped(is_quick);
    run_asleep(is_quick);
    (void)unlink(path);
}
