"""How threads share a launch: chunks are claimed, and nobody waits for a thread that isn't there.

`main` runs in one thread, the caller's. A shared launch is *published* in the team's block: its
number, a function that runs some of its instances, and a share of them for each thread, cut in
chunks; there are fewer shares where each would have less work than `sharing` has found to pay. Then
everybody claims chunks, its own share's from the front, then others' from the back, so that caches
keep what they hold. The caller takes half of what another share has left at once, and runs it in
order: what kernels fetch ahead is what comes next. What is left to wait for are chunks that
somebody has begun and not finished. Who computes a chunk changes nothing in it.

A share is one word of 64 bits: the launch's number (40), the next chunk at the front and the end at
the back (12 each). A claim is one compare-and-swap on it. Numbers only grow, so no word is ever
reset, and loops in `main` need no care. Invariants:

1. The caller alone writes a launch's fields and opens its words, and only when all chunks of the
   launch before are finished: its own, and as many of others' as were claimed by others (`goal`).
2. A claim succeeds only on a word of the launch that is published. Who comes late, asleep since any
   earlier launch or run, finds another number or nothing left; it has then read the block alone.
3. Fields, the frame (`main`'s stack) and all that kernels touch are used only between a claim and
   the count of the chunk as finished. So when `main` returns, no thread uses its code or memory.
4. The count is a release and the caller's look at it an acquire; opening a word is a release and a
   claim an acquire. So all that chunks of one launch wrote is seen by those of the next.
5. The block and this code outlive the workers, which hold them. A worker that never wakes, never
   started or stayed behind a fork costs speed and nothing else.

What remains is a worker that the system takes off its core amid a chunk. Chunks are cut to 4 to 50
microseconds where instances allow, a hundredth of a time slice or less. A worker that lost its core
rests (see `rests`): where another process wants the core, the caller does nearly all. A worker that
wakes on the caller's own core keeps it from the caller: it goes to another one that it may run on,
and where there is none, or somebody wants that one, it sleeps for 4 to 32 ms. After either it goes
on with the launch that it left, if that still lasts. A caller that waits spins for 0.1 ms and then
parks, so that the system may run the worker on its core.
"""

from __future__ import annotations

import re

from minicc.runtime.rests import CLOSED, FUTEX, HEALTH, REST, RESTING, WAIT

# The block that a team shares, in bytes from its start. What one thread writes while others poll
# stands apart from the rest by two cache lines, as processors fetch lines in pairs.
LINE = 128
OPEN, CPU = 0, 32
DONE = LINE
STUB, FRAME, EXTENT, SHARES, PER_SHARE, MODE = (2 * LINE + 8 * k for k in range(6))
THREADS, GOAL, ASLEEP, JOINED, LEAST = (3 * LINE + 8 * k for k in range(5))
FIRST_SHARE = 4 * LINE

# A word to wait for is three i64: a count that only grows, whether somebody may sleep, and the
# cycles of the time stamp counter (2 to 4 a nanosecond) to spin before parking.
_SLEEPER, PATIENCE = 8, 16

_CHUNK = 1 << 18  # points of a chunk: 4 us of a product, 50 of what memory bounds
_WAKE = 100_000  # points that the caller does alone before it wakes those who sleep: waking is 5 us
_STAND, _LONGEST_STAND = 4_000_000, 32_000_000  # ns

_GETCPU, _SETAFFINITY, _GETAFFINITY = 309, 203, 204  # system calls of Linux
_MASK = 1024  # bytes for the cores that a thread may run on: 8,192
_CROWDED = 1_000_000  # cycles to get to another core, from which somebody else wants that one
_WAKE_ALL = 129  # an operation on a futex that is the process's own


def block_bytes(threads: int) -> int:
    """The bytes of the block of so many threads."""
    return FIRST_SHARE + threads * LINE


def _get(name: str, offset: int, kind: str = "i64") -> str:
    """LLVM IR of reading a word of the block."""
    address = f"%{name}.at = getelementptr i8, ptr %team, i64 {offset}"
    return f"{address}\n  %{name} = load {kind}, ptr %{name}.at"


_WAITING = f"""
declare i64 @syscall(i64, ...)
declare i64 @llvm.readcyclecounter()
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

; wait until the count at %word is %goal or more, awake for so many cycles; whether it parked
define internal i1 @minicc_await(ptr %word, i64 %goal, i64 %patience) nounwind noinline {{
entry:
  %first = load atomic i64, ptr %word acquire, align 8
  %there = icmp sge i64 %first, %goal
  br i1 %there, label %done, label %begin
begin:
  %start = call i64 @llvm.readcyclecounter()
  br label %idle
idle:
  %now = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %now, %start
  %fresh = icmp ult i64 %spent, %patience
  br i1 %fresh, label %poll, label %park
poll:
  call void @minicc_pause()
  %seen = load atomic i64, ptr %word acquire, align 8
  %ready = icmp sge i64 %seen, %goal
  br i1 %ready, label %done, label %idle
park:
  ; first say so, then look again: who changes the word looks for sleepers after the change
  %sleeper = getelementptr i8, ptr %word, i64 {_SLEEPER}
  atomicrmw xchg ptr %sleeper, i64 1 seq_cst
  %last = load atomic i64, ptr %word seq_cst, align 8
  %late = icmp sge i64 %last, %goal
  br i1 %late, label %done, label %sleep
sleep:
  %low = trunc i64 %last to i32
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %word, i32 {WAIT}, i32 %low, ptr null)
  br label %park
done:
  %parked = phi i1 [false, %entry], [false, %poll], [true, %park]
  ret i1 %parked
}}

; wake all who sleep at %word, once: who wakes them takes their mark
define internal void @minicc_wake(ptr %word) nounwind {{
  %sleeper = getelementptr i8, ptr %word, i64 {_SLEEPER}
  %marked = load atomic i64, ptr %sleeper seq_cst, align 8
  %none = icmp eq i64 %marked, 0
  br i1 %none, label %done, label %take
take:
  %mark = atomicrmw xchg ptr %sleeper, i64 0 seq_cst
  %taken = icmp eq i64 %mark, 0
  br i1 %taken, label %done, label %wake
wake:
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %word, i32 {_WAKE_ALL}, i32 2147483647)
  br label %done
done:
  ret void
}}
"""

# Claiming a chunk, running it, and helping with a launch.
_CLAIMING = f"""
; chunks of launch %launch that are now this thread's: the first's number, and in the lowest 12 bits
; how many, which is one at the front, and may be half of those that are left at the back; else -1
define internal i64 @minicc_claim(ptr %word, i64 %launch, i1 %front, i1 %half) nounwind {{
entry:
  %tag = shl i64 %launch, 24
  %first = load atomic i64, ptr %word monotonic, align 8
  br label %look
look:
  %seen = phi i64 [%first, %entry], [%now, %take]
  %other = xor i64 %seen, %tag
  %same = icmp ult i64 %other, {1 << 24}
  br i1 %same, label %count, label %none
count:
  %fore = lshr i64 %other, 12
  %end = and i64 %other, 4095
  %left = icmp ult i64 %fore, %end
  br i1 %left, label %take, label %none
take:
  %there = sub i64 %end, %fore
  %odd = add i64 %there, 1
  %middle = lshr i64 %odd, 1
  %many = select i1 %half, i64 %middle, i64 1
  %last = sub i64 %end, %many
  %back = sub i64 0, %many
  %taken = select i1 %front, i64 4096, i64 %back
  %less = add i64 %seen, %taken
  %pair = cmpxchg ptr %word, i64 %seen, i64 %less acquire monotonic
  %now = extractvalue {{i64, i1}} %pair, 0
  %mine = extractvalue {{i64, i1}} %pair, 1
  br i1 %mine, label %done, label %look
done:
  %chunk = select i1 %front, i64 %fore, i64 %last
  %high = shl i64 %chunk, 12
  %found = or i64 %high, %many
  ret i64 %found
none:
  ret i64 -1
}}

; run the instances of some chunks of a share
define internal void @minicc_chunks(ptr %team, i64 %thread, i64 %share, i64 %chunk, i64 %many)
    nounwind {{
  {_get("stub", STUB, "ptr")}
  {_get("frame", FRAME, "ptr")}
  {_get("extent", EXTENT)}
  {_get("shares", SHARES)}
  {_get("parts", PER_SHARE)}
  %a = mul i64 %share, %extent
  %b = add i64 %a, %extent
  %from = udiv i64 %a, %shares
  %to = udiv i64 %b, %shares
  %length = sub i64 %to, %from
  %c = mul i64 %chunk, %length
  %end = add i64 %chunk, %many
  %d = mul i64 %end, %length
  %e = udiv i64 %c, %parts
  %f = udiv i64 %d, %parts
  %lo = add i64 %from, %e
  %hi = add i64 %from, %f
  call void %stub(ptr %frame, i64 %thread, i64 %lo, i64 %hi)
  ret void
}}

; run chunks of a launch until none is left to claim; how many, or -1 where it has rested.
; %health is null for the caller
define internal i64 @minicc_help(ptr %team, i64 %thread, i64 %threads, i64 %launch, ptr %health)
    nounwind {{
entry:
  %worker = icmp ne ptr %health, null
  %done.at = getelementptr i8, ptr %team, i64 {DONE}
  %mode.at = getelementptr i8, ptr %team, i64 {MODE}
  br label %next
next:
  %share = phi i64 [%thread, %entry], [%following, %empty]
  %before = phi i64 [0, %entry], [%count, %empty]
  %offset = mul i64 %share, {LINE}
  %place = add i64 %offset, {FIRST_SHARE}
  %word = getelementptr i8, ptr %team, i64 %place
  %own = icmp eq i64 %share, %thread
  %others = xor i1 %own, true
  %half = select i1 %worker, i1 false, i1 %others
  br label %more
more:
  %count = phi i64 [%before, %next], [%after, %work], [%after, %say]
  ; delay 0
  %found = call i64 @minicc_claim(ptr %word, i64 %launch, i1 %own, i1 %half)
  %none = icmp slt i64 %found, 0
  br i1 %none, label %empty, label %claimed
claimed:
  ; delay 1
  %begin = call i64 @llvm.readcyclecounter()
  br i1 %worker, label %adopt, label %work
adopt:
  ; rounding and denormals as in the caller
  call void @minicc_set_mode(ptr %mode.at)
  call void @minicc_note(ptr %health, i64 %begin)
  br label %work
work:
  %chunk = lshr i64 %found, 12
  %many = and i64 %found, 4095
  call void @minicc_chunks(ptr %team, i64 %thread, i64 %share, i64 %chunk, i64 %many)
  ; delay 2
  %after = add i64 %count, %many
  br i1 %worker, label %say, label %more
say:
  atomicrmw add ptr %done.at, i64 1 seq_cst
  call void @minicc_wake(ptr %done.at)
  %crowded = call i1 @minicc_crowded(ptr %team, ptr %health, i64 %begin)
  br i1 %crowded, label %rested, label %more
empty:
  %up = add i64 %share, 1
  %wrap = icmp eq i64 %up, %threads
  %following = select i1 %wrap, i64 0, i64 %up
  %around = icmp eq i64 %following, %thread
  br i1 %around, label %leave, label %next
leave:
  ret i64 %count
rested:
  ret i64 -1
}}
"""

# What `main` calls.
_LAUNCHING = f"""
define void @minicc_launch(ptr %team, ptr %stub, ptr %frame, i64 %extent, i64 %work) nounwind {{
entry:
  {_get("threads", THREADS)}
  {_get("bits", LEAST)}
  %worth = lshr i64 %work, %bits
  %some = call i64 @llvm.umin.i64(i64 %threads, i64 %worth)
  %shares = call i64 @llvm.umin.i64(i64 %some, i64 %extent)
  %shared = icmp ugt i64 %shares, 1
  br i1 %shared, label %publish, label %alone
alone:
  call void %stub(ptr %frame, i64 0, i64 0, i64 %extent)
  ret void
publish:
  ; chunks of a share: by its work, and no more than its instances
  %points = udiv i64 %work, %shares
  %fine = udiv i64 %points, {_CHUNK}
  %least = call i64 @llvm.umax.i64(i64 %fine, i64 1)
  %above = add i64 %extent, %shares
  %up = sub i64 %above, 1
  %most = udiv i64 %up, %shares
  %fitting = call i64 @llvm.umin.i64(i64 %least, i64 %most)
  %parts = call i64 @llvm.umin.i64(i64 %fitting, i64 4095)
  %last = load atomic i64, ptr %team monotonic, align 8
  %launch = add i64 %last, 1
  %stub.at = getelementptr i8, ptr %team, i64 {STUB}
  %frame.at = getelementptr i8, ptr %team, i64 {FRAME}
  %extent.at = getelementptr i8, ptr %team, i64 {EXTENT}
  %shares.at = getelementptr i8, ptr %team, i64 {SHARES}
  %parts.at = getelementptr i8, ptr %team, i64 {PER_SHARE}
  %mode.at = getelementptr i8, ptr %team, i64 {MODE}
  store ptr %stub, ptr %stub.at
  store ptr %frame, ptr %frame.at
  store i64 %extent, ptr %extent.at
  store i64 %shares, ptr %shares.at
  store i64 %parts, ptr %parts.at
  call void @minicc_save_mode(ptr %mode.at)
  %tag = shl i64 %launch, 24
  %full = or i64 %tag, %parts
  br label %open
open:
  %share = phi i64 [0, %publish], [%next, %open]
  %offset = mul i64 %share, {LINE}
  %place = add i64 %offset, {FIRST_SHARE}
  %word = getelementptr i8, ptr %team, i64 %place
  store atomic i64 %full, ptr %word release, align 8
  %next = add i64 %share, 1
  %more = icmp ult i64 %next, %shares
  br i1 %more, label %open, label %tell
tell:
  ; delay 3
  atomicrmw xchg ptr %team, i64 %launch seq_cst
  call void @minicc_rouse(ptr %team, i64 %work)
  %mine = call i64 @minicc_help(ptr %team, i64 0, i64 %threads, i64 %launch, ptr null)
  %all = mul i64 %shares, %parts
  %theirs = sub i64 %all, %mine
  {_get("goal", GOAL)}
  %sum = add i64 %goal, %theirs
  store i64 %sum, ptr %goal.at
  ret void
}}

; wake the workers that sleep, when the caller did enough alone; say on which core it runs
define internal void @minicc_rouse(ptr %team, i64 %work) nounwind {{
entry:
  %sleeper = getelementptr i8, ptr %team, i64 {_SLEEPER}
  %marked = load atomic i64, ptr %sleeper seq_cst, align 8
  %awake = icmp eq i64 %marked, 0
  br i1 %awake, label %done, label %asleep
asleep:
  %alone.at = getelementptr i8, ptr %team, i64 {ASLEEP}
  %before = load i64, ptr %alone.at
  %alone = add i64 %before, %work
  %enough = icmp uge i64 %alone, {_WAKE}
  %rest = select i1 %enough, i64 0, i64 %alone
  store i64 %rest, ptr %alone.at
  br i1 %enough, label %wake, label %done
wake:
  %cpu = getelementptr i8, ptr %team, i64 {CPU}
  call i64 (i64, ...) @syscall(i64 {_GETCPU}, ptr %cpu, ptr null, ptr null)
  call void @minicc_wake(ptr %team)
  br label %done
done:
  ret void
}}

define void @minicc_barrier(ptr %team) nounwind {{
  ; delay 4
  {_get("goal", GOAL)}
  {_get("patience", DONE + PATIENCE)}
  %done = getelementptr i8, ptr %team, i64 {DONE}
  call i1 @minicc_await(ptr %done, i64 %goal, i64 %patience)
  ret void
}}
"""

_LEAVING = f"""
; leave a core for another one that this thread may run on; whether there was one that had time
define internal i1 @minicc_leave(i32 %core) nounwind noinline {{
  %mask = alloca [{_MASK} x i8], align 8
  %size = call i64 (i64, ...) @syscall(i64 {_GETAFFINITY}, i32 0, i64 {_MASK}, ptr %mask)
  %number = zext i32 %core to i64
  %byte = lshr i64 %number, 3
  %known = icmp sgt i64 %size, %byte
  br i1 %known, label %try, label %no
try:
  %place = trunc i32 %core to i8
  %shift = and i8 %place, 7
  %bit = shl i8 1, %shift
  %cores.at = getelementptr i8, ptr %mask, i64 %byte
  %cores = load i8, ptr %cores.at
  %clear = xor i8 %bit, -1
  %others = and i8 %cores, %clear
  store i8 %others, ptr %cores.at
  %begin = call i64 @llvm.readcyclecounter()
  %failed = call i64 (i64, ...) @syscall(i64 {_SETAFFINITY}, i32 0, i64 %size, ptr %mask)
  %end = call i64 @llvm.readcyclecounter()
  %left = icmp eq i64 %failed, 0
  br i1 %left, label %restore, label %no
restore:
  store i8 %cores, ptr %cores.at
  call i64 (i64, ...) @syscall(i64 {_SETAFFINITY}, i32 0, i64 %size, ptr %mask)
  %took = sub i64 %end, %begin
  %soon = icmp ult i64 %took, {_CROWDED}
  ret i1 %soon
no:
  ret i1 false
}}
"""

# A worker's life; %health is what `rests` knows of it.
_WORKING = f"""
define void @minicc_worker(ptr %team) nounwind {{
entry:
  %joined.at = getelementptr i8, ptr %team, i64 {JOINED}
  {_get("threads", THREADS)}
  %before = atomicrmw add ptr %joined.at, i64 1 monotonic
  %thread = add i64 %before, 1
  %wanted = icmp ult i64 %thread, %threads
  br i1 %wanted, label %join, label %done
join:
  %health = alloca [{HEALTH} x i64], align 8
  %back.at = getelementptr i64, ptr %health, i64 1
  %rest.at = getelementptr i64, ptr %health, i64 2
  call void @minicc_slept(ptr %health)
  store i64 0, ptr %back.at
  store i64 {REST}, ptr %rest.at
  %own.offset = mul i64 %thread, {LINE}
  %own.place = add i64 %own.offset, {FIRST_SHARE}
  %share.at = getelementptr i64, ptr %health, i64 6
  store i64 %own.place, ptr %share.at
  %closed.at = getelementptr i8, ptr %team, i64 {CLOSED}
  %cpu.at = getelementptr i8, ptr %team, i64 {CPU}
  {_get("spin", OPEN + PATIENCE)}
  %own = alloca i32
  store i32 -1, ptr %own
  br label %next
next:
  %seen = phi i64 [-1, %join], [%launch, %share], [%now, %wait]
  %patience = phi i64 [%spin, %join], [%spin, %share], [0, %wait]
  %nap = phi i64 [{_STAND}, %join], [{_STAND}, %share], [%longer, %wait]
  %goal = add i64 %seen, 1
  ; delay 5
  %parked = call i1 @minicc_await(ptr %team, i64 %goal, i64 %patience)
  %launch = load atomic i64, ptr %team acquire, align 8
  %closed = load atomic i32, ptr %closed.at monotonic, align 4
  %open = icmp eq i32 %closed, 0
  br i1 %open, label %go, label %done
go:
  br i1 %parked, label %place, label %share
place:
  ; who wakes on the caller's core keeps it from the caller
  %stay = phi i64 [%nap, %go], [%twice, %sleep]
  call void @minicc_slept(ptr %health)
  call i64 (i64, ...) @syscall(i64 {_GETCPU}, ptr %own, ptr null, ptr null)
  %here = load i32, ptr %own
  %there = load atomic i32, ptr %cpu.at monotonic, align 4
  %together = icmp eq i32 %here, %there
  br i1 %together, label %stand, label %share
stand:
  %elsewhere = call i1 @minicc_leave(i32 %here)
  br i1 %elsewhere, label %share, label %sleep
sleep:
  call void @minicc_sleep(ptr %team, i64 %stay)
  %double = mul i64 %stay, 2
  %twice = call i64 @llvm.umin.i64(i64 %double, i64 {_LONGEST_STAND})
  %still = load atomic i64, ptr %team monotonic, align 8
  %lasts = icmp eq i64 %still, %launch
  br i1 %lasts, label %place, label %wait
share:
  %count = call i64 @minicc_help(ptr %team, i64 %thread, i64 %threads, i64 %launch, ptr %health)
  %rest = icmp slt i64 %count, 0
  br i1 %rest, label %rested, label %next
rested:
  ; a launch may be longer than a rest
  %joined = load atomic i64, ptr %team acquire, align 8
  %more = call i64 @minicc_help(ptr %team, i64 %thread, i64 %threads, i64 %joined, ptr %health)
  %again = icmp slt i64 %more, 0
  br i1 %again, label %rested, label %wait
wait:
  ; park for a launch to come, so that it is the caller who wakes it and says where it runs
  %longer = phi i64 [%twice, %sleep], [{_STAND}, %rested]
  %now = load atomic i64, ptr %team acquire, align 8
  %ended = load atomic i32, ptr %closed.at monotonic, align 4
  %lives = icmp eq i32 %ended, 0
  br i1 %lives, label %next, label %done
done:
  ret void
}}

define void @minicc_close(ptr %team) nounwind {{
  %closed = getelementptr i8, ptr %team, i64 {CLOSED}
  store atomic i32 1, ptr %closed seq_cst, align 4
  atomicrmw add ptr %team, i64 1 seq_cst
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %closed, i32 {_WAKE_ALL}, i32 2147483647)
  call void @minicc_wake(ptr %team)
  ret void
}}
"""


def team_ir(delay: str = "") -> str:
    """LLVM IR of what `main` calls, of the worker's loop, and of its end.

    `void minicc_launch(ptr team, ptr stub, ptr frame, i64 extent, i64 work)` has the instances from
    0 to `extent` run by `void stub(ptr frame, i64 thread, i64 lo, i64 hi)`, and may return before
    all are done; no two threads have one number, and the caller is 0.
    `void minicc_barrier(ptr team)` waits until they are; it must be called before the next launch,
    before a frame is written again, and at the end of `main`. `void minicc_worker(ptr team)` is
    what a worker lives in until `void minicc_close(ptr team)`; one too many returns at once.

    `delay` is the name of a function `void (i64 place)` for tests, called where a thread may be
    overtaken.
    """
    text = _WAITING + _CLAIMING + _LAUNCHING + RESTING + _LEAVING + _WORKING
    return re.sub(r"; delay (\d)", rf"call void @{delay}(i64 \1)", text) if delay else text
