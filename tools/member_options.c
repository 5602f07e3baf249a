/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/member_options.h"

#include <ctype.h>
#include <errno.h>
#include <ferry/group.h>
#include <stdlib.h>

enum {
    KEY_LOCAL = 0x200, /* apart from the commands' own */
    KEY_JOB,
    KEY_NETWORK,
    KEY_SECRET,
    KEY_USER,
    KEY_PASSWORD,
    KEY_CA,
    KEY_CERTIFICATE,
    KEY_KEY,
    KEY_JOIN,
    KEY_LEASE,
};

static const struct argp_option option_list[] = {
    {"local", KEY_LOCAL, NULL, 0, "Start all of them here; they meet in a folder of their own", 0},
    {"store", 'S', "URI", 0,
     "Where they meet: file:DIR, etcd://HOST:PORT[,HOST:PORT...], or etcds: with TLS", 0},
    {"rank", 'r', "N", 0, "Rank of this one", 0},
    {"job", KEY_JOB, "NAME", 0, "Name of the job in the store (default: the command's)", 0},
    {"network", KEY_NETWORK, "NAME", 0,
     "Address or interface that other hosts reach (default: this host alone)", 0},
    {"secret", KEY_SECRET, "FILE", 0, "File whose bytes are the job's secret (default: none)", 0},
    {"user", KEY_USER, "NAME", 0, "User of the etcd", 0},
    {"password", KEY_PASSWORD, "FILE", 0, "File whose first line is the user's password", 0},
    {"ca", KEY_CA, "FILE", 0, "etcds: trusted certificates (default: the system's)", 0},
    {"certificate", KEY_CERTIFICATE, "FILE", 0, "etcds: this end's own certificate", 0},
    {"key", KEY_KEY, "FILE", 0, "etcds: key of that certificate", 0},
    {"join-time", KEY_JOIN, "SECONDS", 0, "How long to wait for the others (default 60)", 0},
    {"lease", KEY_LEASE, "SECONDS", 0,
     "One on another host that is silent for this long is dead (default 5)", 0},
    {0},
};

double member_options_seconds(const struct argp_state *state, const char *name, const char *text)
{
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.001 && seconds <= MEMBER_SECONDS_MAX))
        argp_error(state, "--%s is '%s'; it must be seconds from 0.001 to %d", name, text,
                   MEMBER_SECONDS_MAX);
    return seconds;
}

uint64_t member_options_number(const struct argp_state *state, const char *name, const char *text,
                               uint64_t least, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0' || errno || number < least || number > most)
        argp_error(state, "--%s is '%s'; it must be a number from %llu to %llu", name, text,
                   (unsigned long long)least, (unsigned long long)most);
    return number;
}

static error_t parse_store(int key, char *argument, struct argp_state *state)
{
    member_options *options = state->input;
    switch (key) {
    case KEY_USER:
        options->user = argument;
        return 0;
    case KEY_PASSWORD:
        options->password_path = argument;
        return 0;
    case KEY_CA:
        options->ca_path = argument;
        return 0;
    case KEY_CERTIFICATE:
        options->certificate_path = argument;
        return 0;
    case KEY_KEY:
        options->key_path = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    member_options *options = state->input;
    switch (key) {
    case KEY_LOCAL:
        options->is_local = true;
        return 0;
    case 'S':
        options->store = argument;
        return 0;
    case 'r':
        options->rank =
            (int)member_options_number(state, "rank", argument, 0, FERRY_GROUP_SIZE_MAX - 1);
        return 0;
    case KEY_JOB:
        options->job = argument;
        return 0;
    case KEY_NETWORK:
        options->network = argument;
        return 0;
    case KEY_SECRET:
        options->secret_path = argument;
        return 0;
    case KEY_JOIN:
        options->join_s = member_options_seconds(state, "join-time", argument);
        return 0;
    case KEY_LEASE:
        options->lease_s = member_options_seconds(state, "lease", argument);
        return 0;
    default:
        return parse_store(key, argument, state);
    }
}

void member_options_check(const member_options *options, const struct argp_state *state)
{
    if (!options->user != !options->password_path)
        argp_error(state, "--user and --password go together");
    if (!options->certificate_path != !options->key_path)
        argp_error(state, "--certificate and --key go together");
    if (options->is_local && (options->store || options->rank >= 0))
        argp_error(state, "--local starts all: it takes neither --store nor --rank");
    else if (!options->is_local && (!options->store || options->rank < 0))
        argp_error(state, "either --local, or --store and --rank");
    else if (options->rank >= (int)options->size)
        argp_error(state, "--rank is %d; ranks are below %u here", options->rank,
                   (unsigned)options->size);
}

const struct argp member_options_parser = {.options = option_list, .parser = parse_option};
