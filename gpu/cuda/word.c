/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words: the numbers of marks that streams and their tellers write to host memory (stream.c).
 *
 * Why the bytes are there when the word is. cuda.h says of cuStreamWriteValue32, at the flag
 * NO_MEMORY_BARRIER, which is not given (nor known to this form of the call): it "will provide a
 * memory fence before the write, which has similar semantics to __threadfence_system() but is
 * scoped to the stream". So all that the stream's earlier work wrote, to the host or to any
 * device's memory, is written for everybody in the system before the word is. The host reads the
 * word with acquire and the bytes after it; what it hands to any stream afterwards is handed over
 * after the word was seen. (Words order nothing between streams: cuda.h warns that the driver does
 * not see such an order. Streams wait for events.)
 *
 * Why the low half is enough. Only numbers of its own stream's marks are written to a word, in
 * order. So it holds the low half of some mark w, fired <= w <= marked: `fired` came from an
 * earlier look at the word, and no mark beyond `marked` has been made. At most
 * FRY_STREAM_DEPTH_MOST operations, far fewer than 2^31, lie between the two, so the 32-bit
 * difference of the low halves is the difference, also across their wrap. A greater difference than
 * marked - fired says nothing: an event is ahead of the word (below), or the word is rubbish.
 *
 * A stream and its teller (stream.c) write to words of their own, as they are in no order among
 * each other. `fired` comes from whichever is ahead. A word to which no mark beyond `fired` is
 * written says nothing and is not looked at; otherwise it holds a mark that is no more than
 * FRY_CUDA_WORD_AGE_MOST before the next one written to it, so the argument above holds for both.
 * The teller's fence covers what it has waited for, so the copy's bytes too.
 */
#include "gpu/cuda/word.h"

#include "base/lf.h"

/* How far the word is ahead of `fired`; `newest` is the newest mark that is written to it. */
static uint32_t word_ahead(const uint32_t *word, uint64_t newest, uint64_t fired, uint64_t marked)
{
    if (newest <= fired)
        return 0;
    uint32_t ahead = fry_load_acquire(word) - (uint32_t)fired;
    return ahead <= marked - fired ? ahead : 0;
}

uint64_t fry_cuda_word_read(const fry_cuda_stream *stream, uint64_t fired)
{
    uint64_t marked = fry_load_acquire(&stream->marked);
    if (marked == fired || fry_load_relaxed(&stream->is_worded) == 0)
        return fired;
    uint32_t ahead =
        word_ahead(&stream->words[0], fry_load_relaxed(&stream->worded), fired, marked);
    if (stream->teller == NULL)
        return fired + ahead;
    uint32_t told = word_ahead(&stream->words[1], fry_load_relaxed(&stream->told), fired, marked);
    return fired + (told > ahead ? told : ahead);
}

uint64_t fry_cuda_stream_peek(const fry_cuda_stream *stream)
{
    /* `fired` first: the word and `marked`, read later, are at least as new. */
    return fry_cuda_word_read(stream, fry_load_acquire(&stream->fired));
}

bool fry_cuda_stream_has_words(const fry_cuda_stream *stream)
{
    return fry_load_acquire(&stream->words[0]) == (uint32_t)fry_load_relaxed(&stream->worded) &&
           fry_load_acquire(&stream->words[1]) == (uint32_t)fry_load_relaxed(&stream->told);
}

bool fry_cuda_stream_waits_for_no_word(const fry_cuda_stream *stream)
{
    return fry_load_relaxed(&stream->is_worded) == 0 || fry_cuda_stream_has_words(stream);
}
