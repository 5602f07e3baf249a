/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joined FOLDER FILES OPERATIONS MESH SEED: writes the trace files of a made-up job into a folder
 * that exists, 0.json and so on, and joins them as `ferry trace` does. Each process has a clock of
 * its own, and what is to come out is known: which operation each arrow goes to, and how much the
 * clocks differ. OPERATIONS are of all files together. MESH says who sends to whom: all, star (to
 * and from the first), ring (to and from a neighbour), line (to the next, and nobody answers).
 */
#include "tests/support/check.h"
#include "tools/trace_reader.h"

#include <stdlib.h>
#include <string.h>

#define FILES_MAX 16
#define FIRST_NS INT64_C(5000000000000) /* by the true clock; positive by all others */
#define SKEW_NS INT64_C(1000000000000)  /* clocks differ by as much as that, either way */
#define LEAST_WAY_NS 2000               /* of each pair and direction another, up to ... */
#define MOST_WAY_NS 80000               /* ... this much, and each message takes some more */
#define MORE_NS 50000
#define STEP_NS 700

typedef struct job {
    uint32_t files;
    uint32_t operations; /* of a file, at most */
    const char *mesh;
    uint64_t random;
    FILE *to[FILES_MAX];
    int64_t skew_ns[FILES_MAX];             /* a file's clock less the true one */
    int64_t way_ns[FILES_MAX][FILES_MAX];   /* the least that a message takes */
    int64_t least_ns[FILES_MAX][FILES_MAX]; /* that one has taken; INT64_MAX: there was none */
    uint32_t count[FILES_MAX];              /* operations so far */
    uint32_t *peers[FILES_MAX];             /* of a file's operation: file << 24 | operation */
    size_t messages;
} job;

static uint64_t draw(job *j, uint64_t below)
{
    j->random ^= j->random << 13;
    j->random ^= j->random >> 7;
    j->random ^= j->random << 17;
    return (j->random >> 11) % below;
}

/* ---- making ---- */

static bool is_mesh(const job *j, const char *mesh)
{
    return strcmp(j->mesh, mesh) == 0;
}

static void choose_ends(job *j, uint32_t *from_p, uint32_t *to_p)
{
    uint32_t one = (uint32_t)draw(j, j->files - 1), other = one + 1; /* ring and line: neighbours */
    if (is_mesh(j, "all")) {
        one = (uint32_t)draw(j, j->files);
        other = (one + 1 + (uint32_t)draw(j, j->files - 1)) % j->files;
    } else if (is_mesh(j, "star")) {
        one = 0;
        other = 1 + (uint32_t)draw(j, j->files - 1);
    }
    bool is_back = !is_mesh(j, "line") && draw(j, 2) == 0;
    *from_p = is_back ? other : one;
    *to_p = is_back ? one : other;
}

static void put_time(FILE *to, const char *name, int64_t ns)
{
    fprintf(to, "\"%s\":%lld.%03lld", name, (long long)(ns / 1000), (long long)(ns % 1000));
}

/* As ferry writes it: an operation that was issued, and ended, at these times by its clock. */
static void put_operation(FILE *to, uint32_t file, uint32_t op, const char *kind, int64_t issued_ns,
                          int64_t end_ns)
{
    fprintf(to, "{\"name\":\"%s\",\"cat\":\"ferry\",\"ph\":\"X\",\"pid\":%u,\"tid\":8097,", kind,
            file + 1);
    put_time(to, "ts", end_ns);
    fprintf(to, ",\"dur\":0.000,\"args\":{\"op\":%u,\"kind\":\"%s\",\"bytes\":64,", op, kind);
    fputs("\"status\":\"FERRY_OK\",", to);
    put_time(to, "submitted", issued_ns - 1500);
    fputc(',', to);
    put_time(to, "ready", issued_ns - 20);
    fputc(',', to);
    put_time(to, "issued", issued_ns);
    fputc(',', to);
    put_time(to, "fired", end_ns);
    fputc(',', to);
    put_time(to, "resolved", end_ns);
    fputs("}},\n", to);
    for (int i = 0; i < 2; i++) {
        fprintf(to,
                "{\"name\":\"wait\",\"cat\":\"ferry\",\"ph\":\"%s\",\"id\":%u,\"pid\":%u,"
                "\"tid\":8097,",
                i == 0 ? "b" : "e", op, file + 1);
        put_time(to, "ts", i == 0 ? issued_ns - 1500 : issued_ns - 20);
        fputs("},\n", to);
    }
}

static void put_end(FILE *to, uint32_t file, bool is_sender, uint64_t flow, int64_t when_ns)
{
    fprintf(to,
            "{\"name\":\"message\",\"cat\":\"ferry\",\"ph\":%s,\"id\":%llu,\"pid\":%u,"
            "\"tid\":8097,",
            is_sender ? "\"s\"" : "\"f\",\"bp\":\"e\"", (unsigned long long)flow, file + 1);
    put_time(to, "ts", when_ns);
    fputs("},\n", to);
}

static void put_message(job *j, uint32_t from, uint32_t to, int64_t sent_ns)
{
    static const char *const kinds[][2] = {
        {"send", "recv"}, {"put", "recv"}, {"send", "get"}, {"notice", "notice next"}};
    const char *const *kind = kinds[draw(j, 4)];
    int64_t took_ns = j->way_ns[from][to] + (int64_t)draw(j, MORE_NS);
    int64_t answer_ns = took_ns + j->way_ns[to][from];
    uint32_t sender = ++j->count[from], receiver = ++j->count[to];
    uint64_t flow = ((uint64_t)from + 1) << 40 | sender;
    if (took_ns < j->least_ns[from][to])
        j->least_ns[from][to] = took_ns;
    put_operation(j->to[from], from, sender, kind[0], sent_ns + j->skew_ns[from],
                  sent_ns + answer_ns + j->skew_ns[from]);
    put_end(j->to[from], from, true, flow, sent_ns + j->skew_ns[from]);
    put_operation(j->to[to], to, receiver, kind[1], sent_ns - 1000 + j->skew_ns[to],
                  sent_ns + took_ns + j->skew_ns[to]);
    put_end(j->to[to], to, false, flow, sent_ns + took_ns + j->skew_ns[to]);
    j->peers[from][sender] = to << 24 | receiver;
    j->peers[to][receiver] = from << 24 | sender;
    j->messages++;
}

static FILE *open_file(const char *folder, uint32_t file, const char *mode)
{
    char path[4096];
    CHECK((size_t)snprintf(path, sizeof path, "%s/%u.json", folder, file) < sizeof path);
    FILE *opened = fopen(path, mode);
    CHECK(opened != NULL);
    return opened;
}

static void begin_files(job *j, const char *folder)
{
    for (uint32_t i = 0; i < j->files; i++) {
        j->to[i] = open_file(folder, i, "wb");
        j->peers[i] = calloc(j->operations + 2, sizeof(uint32_t));
        CHECK(j->peers[i] != NULL);
        j->skew_ns[i] = (int64_t)draw(j, 2 * SKEW_NS) - SKEW_NS;
        fprintf(j->to[i],
                "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":"
                "{\"name\":\"job\"}},\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,"
                "\"tid\":8097,\"args\":{\"name\":\"engine 1 graph\"}},\n",
                i + 1, i + 1);
        for (uint32_t k = 0; k < j->files; k++) {
            j->way_ns[i][k] = LEAST_WAY_NS + (int64_t)draw(j, MOST_WAY_NS - LEAST_WAY_NS);
            j->least_ns[i][k] = INT64_MAX;
        }
    }
}

static void end_files(job *j)
{
    for (uint32_t i = 0; i < j->files; i++) {
        fprintf(j->to[i],
                "{\"name\":\"ferry_end\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"records\":%u,"
                "\"dropped\":0,\"unwritten\":0,\"version\":\"0\"}}\n]\n",
                i + 1, 6 * j->count[i]);
        CHECK(!ferror(j->to[i]) && fclose(j->to[i]) == 0);
    }
}

static void make_files(job *j, const char *folder, size_t operations)
{
    begin_files(j, folder);
    for (size_t i = 0; 2 * i < operations; i++) {
        uint32_t from, to;
        choose_ends(j, &from, &to);
        put_message(j, from, to, FIRST_NS + (int64_t)i * STEP_NS);
    }
    end_files(j);
}

/* ---- looking ---- */

static void read_files(const job *j, const char *folder, trace_model *model)
{
    trace_problems problems[FILES_MAX];
    CHECK(trace_model_init(model) == TRACE_OK);
    for (uint32_t i = 0; i < j->files; i++) {
        problems[i] = (trace_problems){.path = "a file", .to = stderr};
        FILE *file = open_file(folder, i, "rb");
        CHECK(trace_read(file, model, &problems[i]) == TRACE_OK);
        CHECK(fclose(file) == 0);
    }
    CHECK(trace_model_finish(model, problems) == TRACE_OK);
    for (uint32_t i = 0; i < j->files; i++)
        CHECK(problems[i].count == 0);
}

static uint32_t file_of(const trace_model *model, const trace_op *op)
{
    return model->rows[op->row].file;
}

/* Every arrow ends at the operation that took what was sent. */
static void check_arrows(const job *j, const trace_model *model)
{
    CHECK(model->op_count == 2 * j->messages);
    CHECK(model->joined == j->messages);
    for (size_t i = 0; i < model->op_count; i++) {
        const trace_op *op = &model->ops[i];
        CHECK(op->peer < model->op_count);
        const trace_op *peer = &model->ops[op->peer];
        CHECK(peer->is_sender != op->is_sender && peer->peer == i);
        CHECK(j->peers[file_of(model, op)][op->id] == (file_of(model, peer) << 24 | peer->id));
        if (op->is_sender)
            CHECK(peer->end_ns >= op->issued_ns); /* nothing goes back in time */
    }
}

/*
 * The clocks of two that have exchanged messages differ, once they are aligned, by no more than
 * the shortest way there and back.
 */
static void check_clocks(const job *j, const trace_model *model)
{
    int64_t worst_ns = 0, widest_ns = 0;
    for (uint32_t i = 0; i < j->files; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (j->least_ns[i][k] == INT64_MAX || j->least_ns[k][i] == INT64_MAX)
                continue;
            int64_t round_ns = j->least_ns[i][k] + j->least_ns[k][i];
            int64_t left_ns =
                model->shift_ns[i] + j->skew_ns[i] - (model->shift_ns[k] + j->skew_ns[k]);
            int64_t error_ns = left_ns < 0 ? -left_ns : left_ns;
            worst_ns = error_ns > worst_ns ? error_ns : worst_ns;
            widest_ns = round_ns > widest_ns ? round_ns : widest_ns;
            if (error_ns > round_ns)
                fprintf(stderr, "files %u and %u differ by %lld ns, of %lld\n", k, i,
                        (long long)error_ns, (long long)round_ns);
            CHECK(error_ns <= round_ns);
        }
    }
    printf("%zu messages, clocks within %lld ns, ways there and back of up to %lld ns\n",
           j->messages, (long long)worst_ns, (long long)widest_ns);
}

int main(int argc, char **argv)
{
    static job j;
    CHECK(argc == 6);
    size_t operations = strtoul(argv[3], NULL, 10);
    j = (job){.files = (uint32_t)strtoul(argv[2], NULL, 10),
              .operations = (uint32_t)operations,
              .mesh = argv[4],
              .random = strtoull(argv[5], NULL, 10) * 0x9e3779b97f4a7c15u + 1};
    CHECK(j.files >= 2 && j.files <= FILES_MAX && operations < (1u << 24));
    make_files(&j, argv[1], operations);
    trace_model model;
    read_files(&j, argv[1], &model);
    check_arrows(&j, &model);
    check_clocks(&j, &model);
    trace_model_release(&model);
    for (uint32_t i = 0; i < j.files; i++)
        free(j.peers[i]);
    return 0;
}
