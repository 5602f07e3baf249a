/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a request, out of the traces of both its ends. */
#ifndef KV_PICTURE_H
#define KV_PICTURE_H

/*
 * Draws what ranks 0 and 1 have recorded into the folder.
 * Returns 0, or EXIT_FAILURE after a message on stderr.
 */
int kv_picture_draw(const char *folder, const char *svg);

#endif
