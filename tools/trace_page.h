/* SPDX-License-Identifier: Apache-2.0 */
/* tools/trace_page.html as text; the build makes the .c of it. */
#ifndef TRACE_PAGE_H
#define TRACE_PAGE_H

/* Ends with a zero. The data belongs where the text has TRACE_PAGE_DATA. */
extern const char trace_page[];

#define TRACE_PAGE_DATA "<!--DATA-->"

#endif
