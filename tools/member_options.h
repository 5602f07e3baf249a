/* SPDX-License-Identifier: Apache-2.0 */
/* Options of commands that run as a member of a group: where the members meet, and as whom. */
#ifndef MEMBER_OPTIONS_H
#define MEMBER_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#define MEMBER_SECONDS_MAX 86400

typedef struct member_options {
    bool is_local;     /* all members are started here */
    const char *store; /* NULL: local */
    const char *job;
    int rank;                /* -1: not given */
    uint32_t size;           /* of the group */
    const char *network;     /* NULL: this host alone */
    const char *secret_path; /* NULL: no secret */
    const char *user;        /* of an etcd; NULL: none, as the rest */
    const char *password_path, *ca_path, *certificate_path, *key_path;
    double join_s; /* how long the others are waited for */
    double lease_s;
} member_options;

/* Without a job and a size, which the command sets. */
#define MEMBER_OPTIONS_INIT                                                                        \
    {                                                                                              \
        .rank = -1, .join_s = 60, .lease_s = 5                                                     \
    }

/* A child of a command's parser, whose input is a member_options. */
extern const struct argp member_options_parser;

/* Whether what was given fits together; ends the program if not. For ARGP_KEY_SUCCESS. */
void member_options_check(const member_options *options, const struct argp_state *state);

/* Arguments of options; end the program if they are wrong. */
double member_options_seconds(const struct argp_state *state, const char *name, const char *text);
uint64_t member_options_number(const struct argp_state *state, const char *name, const char *text,
                               uint64_t least, uint64_t most);

#endif
