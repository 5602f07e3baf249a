/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reshard_layout.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Notes what is wrong; false. */
static bool fail(char why[RESHARD_LAYOUT_WHY_BYTES], const char *what, const char *at)
{
    (void)snprintf(why, RESHARD_LAYOUT_WHY_BYTES, "%s at '%.60s'", what, at);
    return false;
}

/* A number at *at_p, which is moved behind it. */
static bool take_number(const char **at_p, uint64_t *number)
{
    char *end = NULL;
    if (!isdigit((unsigned char)**at_p))
        return false;
    errno = 0;
    *number = strtoull(*at_p, &end, 10);
    *at_p = end;
    return errno == 0;
}

static bool is_of_name(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '.';
}

/* A name at *at_p, which is moved behind it; ended in place, so what ends it is in *ended_by. */
static const char *take_name(char **at_p, char *ended_by)
{
    char *name = *at_p, *end = name;
    while (is_of_name(*end))
        end++;
    *ended_by = *end;
    if (end == name)
        return NULL;
    if (*end != '\0')
        *end++ = '\0';
    *at_p = end;
    return name;
}

/* AXIS=SIZE,... ; *at_p stands at what comes behind. */
static bool parse_axes(reshard_layout *self, char **at_p, char *why)
{
    char *at = *at_p;
    while (is_of_name(*at)) {
        char ended_by;
        ferry_mesh_axis axis = {.name = take_name(&at, &ended_by)};
        const char *number = at;
        if (ended_by != '=' || !take_number(&number, &axis.size))
            return fail(why, "an axis is NAME=SIZE", axis.name);
        if (self->layout.axis_count == FERRY_RESHARD_AXES_MAX)
            return fail(why, "too many axes", axis.name);
        self->axes[self->layout.axis_count++] = axis;
        at += number - at;
        if (*at != ',')
            break;
        at++;
    }
    *at_p = at;
    return true;
}

/* RANK or FIRST-LAST, with commas, behind an @. */
static bool parse_ranks(reshard_layout *self, char **at_p, char *why)
{
    const char *at = *at_p;
    do {
        uint64_t first = 0, last = 0;
        at++;
        if (!take_number(&at, &first))
            return fail(why, "a rank is missing", at);
        last = first;
        if (*at == '-') {
            at++;
            if (!take_number(&at, &last) || last < first)
                return fail(why, "ranks are FIRST-LAST", at);
        }
        for (uint64_t rank = first; rank <= last; rank++) {
            if (rank >= FERRY_GROUP_SIZE_MAX ||
                self->layout.rank_count == FERRY_RESHARD_POSITIONS_MAX)
                return fail(why, "a rank is too large, or there are too many", at);
            self->ranks[self->layout.rank_count++] = (ferry_rank)rank;
        }
    } while (*at == ',');
    self->layout.ranks = self->ranks;
    *at_p += at - *at_p;
    return true;
}

/* AXIS+AXIS, or - for a dimension that nothing splits; *ended_by: what comes behind it. */
static bool parse_split(reshard_layout *self, char **at_p, char *ended_by, char *why)
{
    char *at = *at_p;
    if (self->layout.split_count == FERRY_RESHARD_DIMENSIONS_MAX)
        return fail(why, "too many dimensions", at);
    ferry_split *split = &self->splits[self->layout.split_count++];
    split->axes = &self->names[self->name_count];
    if (*at == '-') {
        *ended_by = at[1];
        *at_p = at[1] != '\0' ? at + 2 : at + 1;
        return true;
    }
    do {
        const char *name = take_name(&at, ended_by);
        if (name == NULL)
            return fail(why, "an axis is missing; - is for a dimension that nothing splits", at);
        if (split->axis_count == FERRY_RESHARD_AXES_MAX)
            return fail(why, "too many axes", name);
        self->names[self->name_count++] = name;
        split->axis_count++;
    } while (*ended_by == '+');
    *at_p = at;
    return true;
}

bool reshard_layout_parse(reshard_layout *self, const char *text,
                          char why[RESHARD_LAYOUT_WHY_BYTES])
{
    char ended_by = ',';
    memset(self, 0, sizeof(*self));
    if (strlen(text) >= sizeof(self->text))
        return fail(why, "it is too long", text);
    (void)snprintf(self->text, sizeof(self->text), "%s", text);
    self->layout = (ferry_layout){sizeof(self->layout), self->axes, 0, NULL, 0, NULL, 0};
    char *at = self->text;
    if (!parse_axes(self, &at, why) || (*at == '@' && !parse_ranks(self, &at, why)))
        return false;
    if (*at == '\0')
        return true;
    if (at[0] != ':' || at[1] != '[')
        return fail(why, "':[' is missing", at);
    for (at += 2; ended_by == ',';) {
        if (!parse_split(self, &at, &ended_by, why))
            return false;
    }
    self->layout.splits = self->splits;
    return (ended_by == ']' && *at == '\0') || fail(why, "']' is missing, or not the end", at);
}

size_t reshard_shape_parse(uint64_t shape[FERRY_RESHARD_DIMENSIONS_MAX], const char *text,
                           char why[RESHARD_LAYOUT_WHY_BYTES])
{
    const char *at = text;
    for (size_t count = 0; count < FERRY_RESHARD_DIMENSIONS_MAX; at++) {
        if (!take_number(&at, &shape[count++])) {
            (void)fail(why, "a size is missing", at);
            return 0;
        }
        if (*at == '\0')
            return count;
        if (*at != ',' && *at != 'x')
            break;
    }
    (void)fail(why, "sizes are like 64,128 or 64x128, up to 8 of them;", at);
    return 0;
}
