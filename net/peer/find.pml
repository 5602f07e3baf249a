/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows, as their owner and who seeks them tell each other, with Spin
 * (tests/model/run net/peer/find.pml). net/peer/find.c has the words.
 *
 *  seeker  uses one slot again and again. What it seeks, or has found, it leaves at any moment when
 *          nothing of it is in flight; in a use in which it is patient, only when asked to. Once in
 *          each use it reads the owner's memory, or says GET, because it wants to or as that memory
 *          can't be read, and may cancel the GET: net/peer/reach.c
 *  owner   opens a window, closes it, and opens another of the same name, which it may keep open.
 *          GET makes a give, which is in flight until it is answered, even if nobody wants it any
 *          more. A window that is over is overwritten at once: look of engine/messages/window.c
 *
 *  LASTS   the connection does not end
 *  ENDS    each end detaches, at any moment. The owner destroys its channel some time later, which
 *          wipes its mark, and then hears of that: fry_finds_destroyed
 *
 * Words overtake one another, and may wait for a control. What an end says after the other one has
 * detached is lost. A give's bytes may come after their owner's channel is gone: they are an offer,
 * which counts for nothing without the mark.
 *
 * Left out: other slots, which share nothing with this one; other connections, as a number says
 * nothing to them; puts, whose accept is a use of the window like a give; that a GET is refused,
 * which nobody hears who waits for it.
 *
 * Holds: what counts was read before the window was over, and a give ends before that. The owner
 * counts one for the slot while its latest use has a grant, and else none. No end takes the other
 * for one that breaks the rules. Nothing here goes on for ever, so when nothing moves, all that is
 * to come has come: a window that was closed is over, and one that stays open was found.
 */
/* correct: LASTS ENDS */
/* broken: LASTS+LEFT_FIRST_FORGOTTEN,LATER_FIND_ENDS_NOTHING,LEFT_OF_ANY_USE assertion violated */
/* broken: LASTS+LATE_FIND_COUNTS,CLOSE_FIRST_FORGOTTEN,FOUND_OF_ANY_USE assertion violated */
/* broken: LASTS+CLOSE_OF_ANY_USE,LEFT_DURING_READ,GIVE_IS_NO_USE assertion violated */
/* broken: LASTS+SLOT_AGAIN_EARLY,DUE_WORDS_KEPT,OPENED_IN_SILENCE assertion violated */
/* broken: ENDS+DROPPED_BEFORE_DESTROYED,KEPT_WHEN_DESTROYED assertion violated */
#include "tests/model/variants.inc"

#define USES 3 /* numbers, from 1; windows are 1 and 2 */

/* Words under way, by number; FOUND and a give's bytes with their window. */
bit find[USES + 1], left[USES + 1], get[USES + 1], close[USES + 1], answer[USES + 1];
byte found[USES + 1], bytes[USES + 1];

/* The seeker. */
byte sought;     /* the latest number */
byte seeks;      /* how often, also of what was never said */
bit is_sought;   /* it is not left */
byte window;     /* it is found */
bit is_closing;
bit find_is_due, left_is_due;
bit is_patient;  /* it neither leaves nor cancels by itself */
bit has_reached; /* it has read, or said GET */
byte reads;      /* a read of that window is in flight */
bit is_getting;  /* it waits for bytes */
bit is_gone;     /* it has detached */

/* The owner's windows. */
#define NEW 0
#define OPEN 1
#define ENDING 2
#define OVER 3
byte life[3], grants[3], uses[3];
bit stays_open; /* the second */

/* Its slot, for windows of one name. */
#define NONE 0
#define LEFT_FIRST 1 /* before its FIND */
#define ASKED 2
#define GIVEN 3
byte grant, granted; /* the state, and which window is GIVEN */
byte asked;          /* the latest number */
bit found_is_due, close_is_due;
byte gives[USES + 1]; /* for that number, of which window */

bit is_detached, is_wiped, is_destroyed; /* its end of the connection */

/* Any of those words is heard. */
#define HEAR(word, ...)                                                                            \
    atomic {                                                                                       \
        word[1] || word[2] || word[3] ->                                                           \
        if                                                                                         \
        :: word[1] -> n = 1                                                                        \
        :: word[2] -> n = 2                                                                        \
        :: word[3] -> n = 3                                                                        \
        fi;                                                                                        \
        __VA_ARGS__;                                                                               \
        word[n] = 0;                                                                               \
        n = 0                                                                                      \
    }
#define SAY(word, number, what) assert(!word[number]); word[number] = what
#define TELL_OWNER(word) SAY(word, sought, !is_detached)
#define FORGET(word) word[1] = 0; word[2] = 0; word[3] = 0

/* Somebody has read there, and takes it for good if the mark stands. */
#define COUNT(w) assert(life[w] != OVER || is_wiped)

inline seek()
{
    sought++;
    seeks++;
    is_sought = 1;
    has_reached = 0;
    find_is_due = 1;
    if
    :: is_patient = 0
    :: is_patient = 1
    fi
}

inline leave()
{
    sought = (find_is_due -> sought - 1 : sought); /* nobody knows of its number, which is free */
    left_is_due = !find_is_due;
    find_is_due = 0;
    is_sought = 0;
    window = 0;
    is_closing = 0
}

/* find_heard: a word about what is left means nothing. */
inline hear_found()
{
    assert(n <= sought);
    WHEN(is_sought && (n == sought IF(FOUND_OF_ANY_USE, || true)),
         assert(!find_is_due && window == 0);
         window = found[n])
}

inline hear_close()
{
    assert(n <= sought);
    WHEN(is_sought && (n == sought IF(CLOSE_OF_ANY_USE, || true)),
         assert(!find_is_due && !is_closing);
         is_closing = 1 IF(CLOSE_FIRST_FORGOTTEN, && window != 0))
}

/* What was cancelled is answered, too. */
inline hear_bytes()
{
    WHEN(is_getting && n == sought, COUNT(bytes[n]); is_getting = 0);
    answer[n] = !is_detached
}

active proctype seeker()
{
    byte n;

end:
    do
    :: atomic {
           !is_sought && !is_gone && seeks < USES &&
           (!left_is_due IF(SLOT_AGAIN_EARLY, || true)) -> left_is_due = 0; seek()
       }
    :: atomic { find_is_due -> find_is_due = 0; TELL_OWNER(find) }
    :: atomic { left_is_due -> left_is_due = 0; TELL_OWNER(left) }
    :: HEAR(found, hear_found())
    :: HEAR(close, hear_close())
    :: HEAR(bytes, hear_bytes())
    :: atomic {
           window != 0 && !is_closing && !has_reached && !reads ->
           has_reached = 1;
           if
           :: reads = window
           :: is_getting = 1; TELL_OWNER(get)
           fi
       }
    :: atomic { reads -> COUNT(reads); reads = 0 }
    :: atomic { reads && window != 0 -> reads = 0; is_getting = 1; TELL_OWNER(get) }
    :: atomic { is_getting && !is_patient -> is_getting = 0 }
    :: atomic {
           is_sought && (!is_patient || (is_closing && window != 0)) && !is_getting &&
           (!reads IF(LEFT_DURING_READ, || true)) -> leave()
       }
#ifdef ENDS
    :: TAKE(is_gone, leave(); left_is_due = 0; reads = 0; is_getting = 0; /* nobody counts it */
            FORGET(found); FORGET(close); FORGET(bytes))
#endif
    od
}

inline look(w)
{
    WHEN(life[w] == ENDING && grants[w] == 0 && (uses[w] == 0 IF(GIVE_IS_NO_USE, || true)),
         life[w] = OVER)
}

inline end_use(state)
{
    UNLESS(DUE_WORDS_KEPT, found_is_due = 0; close_is_due = 0;)
    grant = state;
    WHEN(granted != 0, assert(grants[granted] == 1); grants[granted]--; look(granted));
    granted = 0
}

inline offer()
{
    if
    :: life[1] == OPEN -> granted = 1
    :: life[2] == OPEN -> granted = 2
    :: else
    fi;
    WHEN(granted != 0, grant = GIVEN; grants[granted]++; found_is_due = 1)
}

#define IS_COUNTED (grants[1] + grants[2] == (grant == GIVEN -> 1 : 0))

inline hear_find()
{
    if
    :: n < asked IF(LATE_FIND_COUNTS, && false)
    :: n == asked -> assert(grant == LEFT_FIRST); grant = NONE
    :: n > asked IF(LATE_FIND_COUNTS, || n < asked) ->
        UNLESS(LATER_FIND_ENDS_NOTHING, end_use(ASKED);)
        grant = ASKED;
        asked = n;
        offer()
    fi;
    assert(IS_COUNTED)
}

inline hear_left()
{
    if
    :: n < asked IF(LEFT_OF_ANY_USE, && false)
    :: n == asked IF(LEFT_OF_ANY_USE, || n < asked) ->
        assert(grant != NONE && grant != LEFT_FIRST);
        end_use(NONE)
    :: n > asked -> UNLESS(LEFT_FIRST_FORGOTTEN, end_use(LEFT_FIRST); asked = n;) skip
    fi;
    assert(IS_COUNTED)
}

/* fry_finds_granted */
inline hear_get()
{
    if
    :: grant == GIVEN && n == asked ->
        gives[n] = granted;
        uses[granted]++;
        bytes[n] = (is_gone -> 0 : granted)
    :: else -> assert(!is_getting || n != sought)
    fi
}

inline end_give()
{
    WHEN(gives[n], COUNT(gives[n]); uses[gives[n]]--; look(gives[n]); gives[n] = 0)
}

/* fry_finds_destroyed; and then all messages are quiet. */
inline drop()
{
    end_use(NONE);
    for (n : 1 .. USES) {
        end_give()
    }
    n = 0
}

active proctype owner()
{
    byte n;

end:
    do
    :: atomic {
           life[1] == NEW || (life[1] >= ENDING && life[2] == NEW) ->
           if
           :: life[1] == NEW -> life[1] = OPEN
           :: life[1] != NEW -> life[2] = OPEN
           :: life[1] != NEW -> life[2] = OPEN; stays_open = 1
           fi;
           WHEN(grant == ASKED && !is_detached, UNLESS(OPENED_IN_SILENCE, offer();) skip)
       }
    :: atomic {
           life[1] == OPEN || (life[2] == OPEN && !stays_open) ->
           n = (life[1] == OPEN -> 1 : 2);
           life[n] = ENDING;
           WHEN(granted == n && !is_detached, close_is_due = 1);
           look(n);
           n = 0
       }
    :: HEAR(find, hear_find())
    :: HEAR(left, hear_left())
    :: HEAR(get, hear_get())
    :: HEAR(answer, end_give())
    :: atomic {
           found_is_due -> found_is_due = 0; SAY(found, asked, (is_gone -> 0 : granted))
       }
    :: atomic { close_is_due -> close_is_due = 0; SAY(close, asked, !is_gone) }
#ifdef ENDS
    :: TAKE(is_detached, found_is_due = 0; close_is_due = 0;
            FORGET(find); FORGET(left); FORGET(get); FORGET(answer);
            IF(DROPPED_BEFORE_DESTROYED, drop();) skip)
    :: atomic { is_detached && !is_wiped -> is_wiped = 1 }
    :: atomic {
           is_wiped && !is_destroyed -> is_destroyed = 1; UNLESS(KEPT_WHEN_DESTROYED, drop();) skip
       }
#endif
    od
}

active proctype judge()
{
    timeout ->
    assert(life[1] == OVER && life[2] == (stays_open -> OPEN : OVER));
    assert(IS_COUNTED && uses[1] + uses[2] == 0 && !reads && !is_getting);
#ifdef LASTS
    assert(!stays_open || !is_sought || window == 2)
#endif
}
