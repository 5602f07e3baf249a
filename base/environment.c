/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include <stdlib.h>

static const struct {
    const char *name;
    const char *text;
} variables[] = {
#define VARIABLE(name, text) {#name, text},
    FRY_ENVIRONMENT_MAP(VARIABLE)
#undef VARIABLE
};

const char *fry_environment(fry_environment_variable variable)
{
    const char *value = secure_getenv(variables[variable].name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *fry_environment_name(fry_environment_variable variable)
{
    return variables[variable].name;
}

const char *fry_environment_text(fry_environment_variable variable)
{
    return variables[variable].text;
}
