/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_reader.h"

#include "program.h"

#include <stdbool.h>
#include <string.h>

#define INSTRUCTIONS_MOST 512
#define NAMES_MOST 128
#define NAME_BYTES 40
#define OPERANDS_MOST 6
#define STEPS_MOST 10000000 /* of a thread: it would not end */

typedef enum operand_kind {
    OPERAND_REGISTER,
    OPERAND_NUMBER,
    OPERAND_MEMORY, /* a register and an offset */
    OPERAND_PARAM,
    OPERAND_LABEL,
} operand_kind;

typedef struct operand {
    operand_kind kind;
    size_t index; /* of the register, the parameter, the label */
    uint64_t number;
} operand;

typedef struct instruction {
    const struct operation *operation;
    bool guarded, negated;
    size_t guard; /* a register */
    operand operands[OPERANDS_MOST];
    size_t operand_count;
} instruction;

typedef struct names {
    char names[NAMES_MOST][NAME_BYTES];
    size_t count;
} names;

struct ptx_kernel {
    names registers, params, labels;
    size_t label_at[NAMES_MOST]; /* instructions; SIZE_MAX: not there yet */
    instruction instructions[INSTRUCTIONS_MOST];
    size_t count;
};

/* Special registers come first. */
enum { TID, NTID, CTAID, NCTAID, CLOCK, SPECIALS };
static const char *const specials[SPECIALS] = {"%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x",
                                               "%globaltimer"};

typedef struct thread {
    const ptx_run *run;
    uint64_t registers[NAMES_MOST];
    size_t next; /* instruction */
    bool ended;
} thread;

/* ---- Operations ----------------------------------------------------------------------------- */

typedef struct operation {
    const char *name;
    uint64_t (*compute)(const uint64_t *in); /* of a result and numbers; or */
    void (*act)(const ptx_kernel *kernel, thread *thread, const instruction *instruction);
    unsigned size_bytes; /* of what is loaded, stored */
    unsigned count;      /* how many of them */
} operation;

static float to_float(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

static uint64_t to_bits(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

#define COMPUTE(name, expression)                                                                  \
    static uint64_t compute_##name(const uint64_t *in)                                             \
    {                                                                                              \
        return expression;                                                                         \
    }
COMPUTE(same, in[0])
COMPUTE(add64, in[0] + in[1])
COMPUTE(add32, (uint32_t)(in[0] + in[1]))
COMPUTE(sub64, in[0] - in[1])
COMPUTE(mul64, in[0] * in[1])
COMPUTE(mul_wide, (uint64_t)(uint32_t)in[0] * (uint32_t)in[1])
COMPUTE(mad_wide, (uint64_t)(uint32_t)in[0] * (uint32_t)in[1] + in[2])
COMPUTE(div64, in[0] / in[1])
COMPUTE(min64, in[0] < in[1] ? in[0] : in[1])
COMPUTE(shl64, in[0] << in[1])
COMPUTE(shr64, in[0] >> in[1])
COMPUTE(and64, in[0] & in[1])
COMPUTE(xor64, in[0] ^ in[1])
COMPUTE(less, in[0] < in[1])
COMPUTE(less_equal, in[0] <= in[1])
COMPUTE(equal, in[0] == in[1])
COMPUTE(not_equal, in[0] != in[1])
COMPUTE(greater_float, to_float(in[0]) > to_float(in[1]))
COMPUTE(add_float, to_bits(to_float(in[0]) + to_float(in[1])))
COMPUTE(mul_float, to_bits(to_float(in[0]) * to_float(in[1])))

static uint64_t value_of(const thread *thread, const operand *operand)
{
    if (operand->kind == OPERAND_NUMBER)
        return operand->number;
    CHECK(operand->kind == OPERAND_REGISTER);
    if (operand->index == CLOCK)
        return thread->run->pass_time(thread->run->arg);
    return thread->registers[operand->index];
}

/* The memory that an operand names, which the kernel has, aligned. */
static char *memory_at(const thread *thread, const operand *operand, size_t size_bytes)
{
    CHECK(operand->kind == OPERAND_MEMORY);
    uintptr_t at = thread->registers[operand->index] + operand->number;
    CHECK(at % size_bytes == 0);
    for (size_t i = 0; i < thread->run->memory_count; i++) {
        const ptx_memory *memory = &thread->run->memory[i];
        uintptr_t start = (uintptr_t)memory->start;
        if (at >= start && at + size_bytes <= start + memory->size_bytes)
            return (char *)at;
    }
    fprintf(stderr, "a kernel touches %p, which it was not given\n", (void *)at);
    exit(EXIT_FAILURE);
}

static void act_load(const ptx_kernel *kernel, thread *thread, const instruction *instruction)
{
    (void)kernel;
    size_t size_bytes = instruction->operation->size_bytes;
    size_t count = instruction->operation->count;
    CHECK(instruction->operand_count == count + 1);
    const char *from = memory_at(thread, &instruction->operands[count], size_bytes * count);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0; /* a narrow one stands in the low bytes */
        memcpy(&value, from + i * size_bytes, size_bytes);
        thread->registers[instruction->operands[i].index] = value;
    }
}

static void act_store(const ptx_kernel *kernel, thread *thread, const instruction *instruction)
{
    (void)kernel;
    size_t size_bytes = instruction->operation->size_bytes;
    uint64_t value = value_of(thread, &instruction->operands[1]);
    memcpy(memory_at(thread, &instruction->operands[0], size_bytes), &value, size_bytes);
}

static void act_reduce(const ptx_kernel *kernel, thread *thread, const instruction *instruction)
{
    (void)kernel;
    uint32_t *at = (uint32_t *)(void *)memory_at(thread, &instruction->operands[0], sizeof(*at));
    *at += (uint32_t)value_of(thread, &instruction->operands[1]);
}

static void act_param(const ptx_kernel *kernel, thread *thread, const instruction *instruction)
{
    (void)kernel;
    CHECK(instruction->operands[1].kind == OPERAND_PARAM);
    thread->registers[instruction->operands[0].index] =
        thread->run->params[instruction->operands[1].index];
}

static void act_branch(const ptx_kernel *kernel, thread *thread, const instruction *instruction)
{
    CHECK(instruction->operands[0].kind == OPERAND_LABEL);
    thread->next = kernel->label_at[instruction->operands[0].index];
    CHECK(thread->next != SIZE_MAX);
}

static void act_nap(const ptx_kernel *kernel, thread *thread, const instruction *instruction)
{
    (void)kernel;
    (void)instruction;
    (void)thread->run->pass_time(thread->run->arg);
}

static void act_return(const ptx_kernel *kernel, thread *thread, const instruction *instruction)
{
    (void)kernel;
    (void)instruction;
    thread->ended = true;
}

static const operation operations[] = {
    {.name = "add.rn.f32", .compute = compute_add_float},
    {.name = "add.u32", .compute = compute_add32},
    {.name = "add.u64", .compute = compute_add64},
    {.name = "and.b64", .compute = compute_and64},
    {.name = "bra", .act = act_branch},
    {.name = "cvt.u64.u32", .compute = compute_same},
    {.name = "cvta.to.global.u64", .compute = compute_same},
    {.name = "div.u64", .compute = compute_div64},
    {.name = "ld.acquire.sys.global.u32", .act = act_load, .size_bytes = 4, .count = 1},
    {.name = "ld.global.f32", .act = act_load, .size_bytes = 4, .count = 1},
    {.name = "ld.global.u64", .act = act_load, .size_bytes = 8, .count = 1},
    {.name = "ld.global.v4.f32", .act = act_load, .size_bytes = 4, .count = 4},
    {.name = "ld.param.u32", .act = act_param},
    {.name = "ld.param.u64", .act = act_param},
    {.name = "mad.wide.u32", .compute = compute_mad_wide},
    {.name = "min.u64", .compute = compute_min64},
    {.name = "mov.f32", .compute = compute_same},
    {.name = "mov.u32", .compute = compute_same},
    {.name = "mov.u64", .compute = compute_same},
    {.name = "mul.lo.u64", .compute = compute_mul64},
    {.name = "mul.rn.f32", .compute = compute_mul_float},
    {.name = "mul.wide.u32", .compute = compute_mul_wide},
    {.name = "nanosleep.u32", .act = act_nap},
    {.name = "red.global.add.u32", .act = act_reduce, .size_bytes = 4},
    {.name = "ret", .act = act_return},
    {.name = "setp.eq.u32", .compute = compute_equal},
    {.name = "setp.gt.f32", .compute = compute_greater_float},
    {.name = "setp.le.u64", .compute = compute_less_equal},
    {.name = "setp.lt.u64", .compute = compute_less},
    {.name = "setp.ne.u32", .compute = compute_not_equal},
    {.name = "setp.ne.u64", .compute = compute_not_equal},
    {.name = "shl.b64", .compute = compute_shl64},
    {.name = "shr.u64", .compute = compute_shr64},
    {.name = "st.global.f32", .act = act_store, .size_bytes = 4},
    {.name = "st.global.u32", .act = act_store, .size_bytes = 4},
    {.name = "st.global.u64", .act = act_store, .size_bytes = 8},
    {.name = "sub.u64", .compute = compute_sub64},
    {.name = "xor.b64", .compute = compute_xor64},
};

static const operation *find_operation(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    }
    fprintf(stderr, "no operation %s\n", name);
    exit(EXIT_FAILURE);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* The number of a name; SIZE_MAX: there is none such, or with `add` it gets one. */
static size_t name_number(names *names, const char *name, bool add)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], name) == 0)
            return i;
    }
    if (!add)
        return SIZE_MAX;
    CHECK(names->count < NAMES_MOST && strlen(name) < NAME_BYTES);
    strcpy(names->names[names->count], name);
    return names->count++;
}

static operand read_number(const char *word)
{
    char *end;
    bool is_float = strncmp(word, "0f", 2) == 0; /* its bits, in hexadecimal */
    uint64_t number = is_float ? strtoull(word + 2, &end, 16) : strtoull(word, &end, 0);
    CHECK(*end == '\0');
    return (operand){.kind = OPERAND_NUMBER, .number = number};
}

static operand read_operand(ptx_kernel *kernel, char *word)
{
    char *offset = strchr(word, '+');
    size_t length = strlen(word);
    bool is_memory = word[0] == '[';
    if (is_memory) {
        CHECK(word[length - 1] == ']');
        word[length - 1] = '\0';
        word++;
    }
    if (word[0] >= '0' && word[0] <= '9')
        return read_number(word);
    if (word[0] != '%' && is_memory)
        return (operand){.kind = OPERAND_PARAM, .index = name_number(&kernel->params, word, false)};
    if (word[0] != '%') {
        size_t label = name_number(&kernel->labels, word, true);
        return (operand){.kind = OPERAND_LABEL, .index = label};
    }
    operand operand = {.kind = is_memory ? OPERAND_MEMORY : OPERAND_REGISTER};
    if (offset != NULL) {
        *offset = '\0';
        operand.number = strtoull(offset + 1, NULL, 10);
    }
    operand.index = name_number(&kernel->registers, word, false);
    CHECK(operand.index != SIZE_MAX); /* not declared */
    return operand;
}

/* One statement without its semicolon, which is changed. */
static void read_statement(ptx_kernel *kernel, char *statement)
{
    static const char blanks[] = " \t\n,{}"; /* the braces are those of vectors */
    char *rest;
    char *word = strtok_r(statement, blanks, &rest);
    if (word == NULL)
        return;
    if (strcmp(word, ".reg") == 0) {
        (void)strtok_r(NULL, blanks, &rest); /* the type */
        while ((word = strtok_r(NULL, blanks, &rest)) != NULL)
            (void)name_number(&kernel->registers, word, true);
        return;
    }
    CHECK(kernel->count < INSTRUCTIONS_MOST);
    instruction *instruction = &kernel->instructions[kernel->count++];
    if (word[0] == '@') {
        instruction->guarded = true;
        instruction->negated = word[1] == '!';
        instruction->guard =
            name_number(&kernel->registers, word + 1 + instruction->negated, false);
        CHECK(instruction->guard != SIZE_MAX);
        word = strtok_r(NULL, blanks, &rest);
        CHECK(word != NULL);
    }
    instruction->operation = find_operation(word);
    while ((word = strtok_r(NULL, blanks, &rest)) != NULL) {
        CHECK(instruction->operand_count < OPERANDS_MOST);
        instruction->operands[instruction->operand_count++] = read_operand(kernel, word);
    }
}

static void read_body(ptx_kernel *kernel, char *body)
{
    for (size_t i = 0; i < NAMES_MOST; i++)
        kernel->label_at[i] = SIZE_MAX;
    while (*body != '\0') {
        size_t length = strcspn(body, ";:");
        char end = body[length];
        body[length] = '\0';
        if (end == ':')
            kernel->label_at[name_number(&kernel->labels, body + strspn(body, " \t\n"), true)] =
                kernel->count;
        else
            read_statement(kernel, body);
        body += length + (end != '\0');
    }
}

/* Blanks for what stands in comments: all of kernels.ptx begin with two slashes. */
static void remove_comments(char *text)
{
    for (char *at = strstr(text, "//"); at != NULL; at = strstr(at, "//"))
        memset(at, ' ', strcspn(at, "\n"));
}

ptx_kernel *ptx_kernel_read(const char *given, const char *name)
{
    static const char blanks[] = " \t\n,";
    char *text = strdup(given);
    CHECK(text != NULL);
    remove_comments(text);
    ptx_kernel *kernel = NULL;
    char *at = text;
    size_t length = strlen(name);
    while ((at = strstr(at, ".entry ")) != NULL) {
        at += strlen(".entry ");
        if (strncmp(at, name, length) == 0 && at[length] == '(')
            break;
    }
    if (at != NULL) {
        kernel = calloc(1, sizeof(*kernel));
        CHECK(kernel != NULL);
        for (size_t i = 0; i < SPECIALS; i++)
            (void)name_number(&kernel->registers, specials[i], true);
        char *params = at + length + 1;
        char *body = strchr(params, '{');
        CHECK(body != NULL);
        char *end = strstr(body, "\n}");
        CHECK(end != NULL);
        *strchr(params, ')') = '\0';
        *end = '\0';
        char *rest;
        for (char *word = strtok_r(params, blanks, &rest); word != NULL;
             word = strtok_r(NULL, blanks, &rest)) {
            if (word[0] != '.')
                (void)name_number(&kernel->params, word, true);
        }
        read_body(kernel, body + 1);
    }
    free(text);
    return kernel;
}

void ptx_kernel_free(ptx_kernel *kernel)
{
    free(kernel);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void step(const ptx_kernel *kernel, thread *thread)
{
    CHECK(thread->next < kernel->count);
    const instruction *instruction = &kernel->instructions[thread->next++];
    const operation *operation = instruction->operation;
    if (instruction->guarded &&
        (thread->registers[instruction->guard] != 0) == instruction->negated)
        return;
    if (operation->act != NULL) {
        operation->act(kernel, thread, instruction);
        return;
    }
    uint64_t in[OPERANDS_MOST] = {0};
    for (size_t i = 1; i < instruction->operand_count; i++)
        in[i - 1] = value_of(thread, &instruction->operands[i]);
    thread->registers[instruction->operands[0].index] = operation->compute(in);
}

void ptx_kernel_run(const ptx_kernel *kernel, const ptx_run *run)
{
    for (unsigned block = 0; block < run->grid; block++) {
        for (unsigned number = 0; number < run->block; number++) {
            thread thread = {.run = run};
            memset(thread.registers, 0xa5,
                   sizeof(thread.registers)); /* nothing is zero by itself */
            thread.registers[TID] = number;
            thread.registers[NTID] = run->block;
            thread.registers[CTAID] = block;
            thread.registers[NCTAID] = run->grid;
            for (size_t steps = 0; !thread.ended; steps++) {
                CHECK(steps < STEPS_MOST);
                step(kernel, &thread);
            }
        }
    }
}
