/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reshard/wrong.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

ferry_status fry_reshard_wrong_note(fry_reshard_wrong *wrong, ferry_status status,
                                    const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    wrong->status = status;
    (void)vsnprintf(wrong->text, sizeof wrong->text, format, arguments);
    va_end(arguments);
    return status;
}

ferry_status fry_reshard_wrong_memory(fry_reshard_wrong *wrong)
{
    return fry_reshard_wrong_note(wrong, FERRY_E_NO_MEMORY, "out of memory for the reshard");
}

ferry_status fry_reshard_wrong_tell(const fry_reshard_wrong *wrong, const fry_memory *memory,
                                    ferry_error **error_p)
{
    if (error_p == NULL)
        return wrong->status;
    const fry_fault fault = {.status = wrong->status, .rank = -1};
    *error_p = &fry_error_create(memory, &fault, NULL, "%s", wrong->text)->public_;
    return wrong->status;
}
