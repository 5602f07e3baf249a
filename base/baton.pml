/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baton and the inbox, with Spin (tests/model/run base/baton.pml).
 *
 *  visitor  a submitting thread: fry_stack_push (base/stack.h) and fry_baton_take; as the holder
 *           fry_stack_take_all, the items, fry_baton_give, fry_stack_is_empty, and take again:
 *           fry_turn_push and fry_turn_end of engine/graph/turn.c. BOUNDED: fry_turn_submit too,
 *           which takes the baton first; its item goes past the inbox if nobody is before it
 *  loop     BOUNDED only: the loop, which sleeps until woken and then takes the baton like the
 *           others. Here it sleeps again if the baton is taken; engine/loop/loop.c does not even do
 *           that
 *  buffer   GIVE_RELAXED only: the store buffer of a holder's processor (x86 TSO), which a plain
 *           store leaves after later loads. The real give, an exchange, leaves the buffer empty, as
 *           do push and take
 *
 *  PLAIN    a holder works until the inbox is empty.
 *  BOUNDED  a submitter takes the whole inbox but works on at most BOUND items. The rest stays in a
 *           backlog of the baton's holder. The submitter then wakes the loop after the give, also
 *           for an inbox that is not empty when the bound is spent.
 *
 * Holds: there is one holder at a time; items are worked on in the order of their pushes to the
 * inbox; when all threads are done or asleep, no item is left.
 */
/* correct: PLAIN */
/* correct: BOUNDED */
/* broken: PLAIN+LOOK_BEFORE_GIVE assertion violated (worked==pushed) */
/* broken: PLAIN+GIVE_RELAXED assertion violated (worked==pushed) */
/* broken: PLAIN+TAKE_BEFORE_PUSH assertion violated (worked==pushed) */
/* broken: PLAIN+TAKE_WITHOUT_EXCHANGE assertion violated  !(held) */
/* broken: PLAIN+NEWEST_FIRST assertion violated (place[item_]==worked) */
/* broken: PLAIN+PUSH_WITHOUT_COMPARE assertion violated */
/* broken: BOUNDED+LOOK_BEFORE_GIVE assertion violated (worked==pushed) */
/* broken: BOUNDED+GIVE_RELAXED assertion violated (worked==pushed) */
/* broken: BOUNDED+LOOP_NOT_WOKEN assertion violated (worked==pushed) */
/* broken: BOUNDED+LOOP_WOKEN_BEFORE_GIVE assertion violated (worked==pushed) */
/* broken: BOUNDED+PASSES_THE_INBOX assertion violated */
/* broken: BOUNDED+INBOX_BEFORE_BACKLOG assertion violated (place[item_]==worked) */

#define VISITORS 3
#define ITEMS 4 /* visitor 0 pushes items 1 and 2, the others one each; 0 is no item */
#define BOUND 1
#define NO_BOUND 255

byte top;              /* the inbox */
byte next[ITEMS + 1];  /* an item's link; ferry's items carry theirs inside */
byte place[ITEMS + 1]; /* the push that put the item in the inbox */
byte pushed;
byte worked;
bit taken;             /* the baton */
bit held;              /* a thread works as the holder */
byte backlog[ITEMS];   /* the holder's: taken from the inbox, not yet worked on */
byte backlog_count;
bit event;             /* the loop is to wake */

#ifdef GIVE_RELAXED
bit give_buffered[VISITORS + 1];
#define FLUSHED(who) (!give_buffered[who])

proctype buffer(byte who)
{
end:
    do
    :: atomic {
           give_buffered[who] ->
           taken = 0;
           give_buffered[who] = 0
       }
    od
}
#else
#define FLUSHED(who) true
#endif

inline push(item_)
{
    seen = top;
    do
    :: next[item_] = seen;
       if
#ifdef PUSH_WITHOUT_COMPARE
       :: atomic {
              FLUSHED(me) ->
              top = item_;
              place[item_] = pushed;
              pushed++;
              seen = 0
          }
          break
#else
       :: atomic { /* compare-and-swap */
              FLUSHED(me) && top == seen ->
              top = item_;
              place[item_] = pushed;
              pushed++;
              seen = 0
          }
          break
       :: atomic { FLUSHED(me) && top != seen -> seen = top }
#endif
       fi
    od
}

inline take(got)
{
#ifdef TAKE_WITHOUT_EXCHANGE
    got = !taken;
    if
    :: got -> taken = 1; assert(!held); held = 1
    :: else
    fi
#else
    atomic {
        FLUSHED(me) ->
        got = !taken;
        taken = 1;
        if
        :: got -> assert(!held); held = 1
        :: else
        fi
    }
#endif
}

inline give()
{
    atomic {
        held = 0;
#ifdef GIVE_RELAXED
        FLUSHED(me) -> give_buffered[me] = 1
#else
        taken = 0
#endif
    }
}

/*
 * Puts the inbox behind the backlog, oldest first: the chain has the newest on top. Only the
 * exchange is shared, so the rest is one step; `held` would show a second holder.
 */
inline take_all()
{
    atomic {
        FLUSHED(me) -> /* the exchange */
        seen = top;
        top = 0
    }
    d_step {
        count = 0;
        i = seen;
        do
        :: i != 0 -> count++; i = next[i]
        :: else -> break
        od;
#ifdef INBOX_BEFORE_BACKLOG
        i = backlog_count;
        do
        :: i > 0 -> i--; backlog[i + count] = backlog[i]
        :: else -> break
        od;
        i = count;
#else
        i = backlog_count + count;
#endif
        backlog_count = backlog_count + count;
#ifdef NEWEST_FIRST
        i = i - count;
        do
        :: seen != 0 -> backlog[i] = seen; seen = next[seen]; i++
        :: else -> break
        od;
#else
        do
        :: seen != 0 -> i--; backlog[i] = seen; seen = next[seen]
        :: else -> break
        od;
#endif
        i = 0;
        count = 0
    }
}

/* Works on the oldest item of the backlog. */
inline work_on_one()
{
    d_step {
        assert(held);
        item_ = backlog[0];
        assert(place[item_] == worked);
        worked++;
        place[item_] = 0;
        next[item_] = 0;
        i = 1;
        do
        :: i < backlog_count -> backlog[i - 1] = backlog[i]; i++
        :: else -> break
        od;
        backlog_count--;
        backlog[backlog_count] = 0;
        i = 0;
        item_ = 0
    }
}

inline drain()
{
    take_all();
    do
    :: backlog_count != 0 && bound != 0 ->
        work_on_one();
        if
        :: bound != NO_BOUND -> bound--
        :: else
        fi
    :: else -> break
    od
}

inline wake_loop()
{
#ifndef LOOP_NOT_WOKEN
    event = 1
#else
    skip
#endif
}

/* fry_turn_end, if the baton was taken */
inline end_turn(bound_)
{
    bound = bound_;
    do
    :: got ->
        drain();
        more = backlog_count != 0;
#ifdef LOOK_BEFORE_GIVE
        left = top != 0;
#endif
#ifdef LOOP_WOKEN_BEFORE_GIVE
        if
        :: more -> wake_loop()
        :: else
        fi;
#endif
        give();
#ifndef LOOK_BEFORE_GIVE
        left = top != 0;
#endif
        if
        :: more || (left && bound == 0) ->
#ifndef LOOP_WOKEN_BEFORE_GIVE
            wake_loop();
#endif
            break
        :: !more && left && bound != 0 -> take(got)
        :: !more && !left -> break
        fi
    :: else -> break
    od;
    got = 0;
    more = 0;
    left = 0
}

/* What a thread does that has left work, or was woken for work. */
inline visit(bound_)
{
    take(got);
    end_turn(bound_)
}

/* fry_turn_submit */
inline submit(item__)
{
    take(got);
    if
    :: got ->
        if
        :: backlog_count != 0 -> push(item__)
        :: else ->
            if /* its place in the order is where it finds the inbox empty */
#ifdef PASSES_THE_INBOX
            :: atomic { true -> place[item__] = pushed; pushed++ }
#else
            :: atomic { top != 0 -> skip }
               push(item__)
            :: atomic { top == 0 -> place[item__] = pushed; pushed++ }
#endif
               d_step {
                   assert(held && place[item__] == worked);
                   worked++;
                   place[item__] = 0
               }
            fi
        fi;
        end_turn(BOUND)
    :: else ->
        push(item__);
        visit(BOUND)
    fi
}

#define SUBMITTERS_LOCALS \
    byte seen, i, count, item_, bound; \
    bit got, more, left

proctype visitor(byte me; byte first; byte items)
{
    SUBMITTERS_LOCALS;
    do
    :: items > 0 ->
#ifdef TAKE_BEFORE_PUSH
        take(got);
        push(first);
        if
        :: got -> drain(); give()
        :: else
        fi;
        got = 0;
#else
#ifdef BOUNDED
        submit(first);
#else
        push(first);
        visit(NO_BOUND);
#endif
#endif
        first++;
        items--
    :: else -> break
    od
}

#ifdef BOUNDED
proctype loop(byte me)
{
    SUBMITTERS_LOCALS;
end:
    do
    :: atomic { event -> event = 0 }
       visit(NO_BOUND)
    od
}
#endif

init {
    atomic {
        run visitor(0, 1, 2);
        run visitor(1, 3, 1);
        run visitor(2, 4, 1);
#ifdef BOUNDED
        run loop(VISITORS);
#endif
#ifdef GIVE_RELAXED
        run buffer(0);
        run buffer(1);
        run buffer(2);
        run buffer(VISITORS)
#endif
    }
    timeout; /* all threads are done or asleep */
    assert(pushed == ITEMS);
    assert(!held && !taken);
    assert(worked == pushed)
}
