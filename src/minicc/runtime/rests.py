"""When a worker rests: its core is wanted by another process.

A worker whose chunk took long because it was taken off its core rests for 2 ms, and twice as long
each time it happens again soon, up to a quarter of a second. Whether that was so, `getrusage`
tells, which counts how often, and clocks, of which one stands while the thread does not run: the
system itself takes a thread off for microseconds, and what a virtual machine loses to others is no
reason to rest. They are read once a millisecond. To a launch that lasts for 8 ms of a rest the
worker comes back: what its caller may wait for in the end, a slice of the other process, is little
then.
"""

from __future__ import annotations

FUTEX, _GETRUSAGE, _CLOCK_GETTIME = 202, 98, 228  # system calls of Linux
WAIT = 128  # an operation on a futex that is the process's own
_MONOTONIC, _THREAD_CPU = 1, 3  # clocks
_SWITCHES = 136  # in `struct rusage`: how often the thread was taken off its core

# cycles of a chunk, 1 to 2 ms, from which it is asked whether the thread was off its core: shorter
# than a time slice, and longer than most chunks that are merely long
_STOLEN = 4_000_000
_SOON = 100_000_000  # cycles
_FRESH = 3_000_000  # cycles: 0.75 to 1.5 ms, so that what is noted costs a thousandth
REST, _LONGEST_REST = 2_000_000, 256_000_000  # ns
_LOOK = 8_000_000  # ns after which one who rests looks whether a launch still lasts
CLOSED = 24  # byte of a team's block (see `claims`) that says that it is closed

# %health is seven i64 of a worker's own: how often it was switched, when it came back from a rest,
# its rest, when the first of these and two clocks were noted, these clocks, and the byte of a
# team's block where its own share is
HEALTH = 7
RESTING = f"""
; how often the system took this thread off its core
define internal i64 @minicc_switches() nounwind {{
  %usage = alloca [18 x i64], align 8
  %switches.at = getelementptr i8, ptr %usage, i64 {_SWITCHES}
  store i64 0, ptr %switches.at
  call i64 (i64, ...) @syscall(i64 {_GETRUSAGE}, i32 1, ptr %usage)
  %switches = load i64, ptr %switches.at
  ret i64 %switches
}}

; nanoseconds of a clock
define internal i64 @minicc_clock(i32 %clock) nounwind {{
  %time = alloca [2 x i64], align 8
  %part.at = getelementptr i64, ptr %time, i64 1
  call i64 (i64, ...) @syscall(i64 {_CLOCK_GETTIME}, i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %part = load i64, ptr %part.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %part
  ret i64 %all
}}

; note what is told of this thread before a chunk, if that was not done in the last millisecond
define internal void @minicc_note(ptr %health, i64 %begin) nounwind {{
  %noted.at = getelementptr i64, ptr %health, i64 3
  %noted = load i64, ptr %noted.at
  %age = sub i64 %begin, %noted
  %fresh = icmp ult i64 %age, {_FRESH}
  br i1 %fresh, label %done, label %read
read:
  %wall.at = getelementptr i64, ptr %health, i64 4
  %own.at = getelementptr i64, ptr %health, i64 5
  %switches = call i64 @minicc_switches()
  %wall = call i64 @minicc_clock(i32 {_MONOTONIC})
  %own = call i64 @minicc_clock(i32 {_THREAD_CPU})
  store i64 %switches, ptr %health
  store i64 %begin, ptr %noted.at
  store i64 %wall, ptr %wall.at
  store i64 %own, ptr %own.at
  br label %done
done:
  ret void
}}

; forget it: this thread has slept since
define internal void @minicc_slept(ptr %health) nounwind {{
  %noted.at = getelementptr i64, ptr %health, i64 3
  store i64 0, ptr %noted.at
  ret void
}}

; whether that happened amid a chunk begun then, for long; it has rested after it
define internal i1 @minicc_crowded(ptr %team, ptr %health, i64 %begin) nounwind {{
  %now = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %now, %begin
  %long = icmp ugt i64 %spent, {_STOLEN}
  br i1 %long, label %look, label %no
look:
  %switches = call i64 @minicc_switches()
  %known = load i64, ptr %health
  %same = icmp eq i64 %switches, %known
  br i1 %same, label %no, label %measure
measure:
  %wall.at = getelementptr i64, ptr %health, i64 4
  %own.at = getelementptr i64, ptr %health, i64 5
  %wall.before = load i64, ptr %wall.at
  %own.before = load i64, ptr %own.at
  %wall.now = call i64 @minicc_clock(i32 {_MONOTONIC})
  %own.now = call i64 @minicc_clock(i32 {_THREAD_CPU})
  %wall = sub i64 %wall.now, %wall.before
  %own = sub i64 %own.now, %own.before
  %lost = sub i64 %wall, %own
  %much = lshr i64 %wall, 3
  %stolen = icmp sgt i64 %lost, %much
  call void @minicc_slept(ptr %health)
  br i1 %stolen, label %rest, label %no
rest:
  call void @minicc_rest(ptr %team, ptr %health)
  ret i1 true
no:
  ret i1 false
}}

; whether a launch has work left in a share
define internal i1 @minicc_left(ptr %word, i64 %launch) nounwind {{
  %share = load atomic i64, ptr %word monotonic, align 8
  %tag = shl i64 %launch, 24
  %chunks = xor i64 %share, %tag
  %same = icmp ult i64 %chunks, {1 << 24}
  %fore = lshr i64 %chunks, 12
  %end = and i64 %chunks, 4095
  %some = icmp ult i64 %fore, %end
  %left = and i1 %same, %some
  ret i1 %left
}}

; stay away, the longer the sooner it happened again, but from one launch for 8 ms at most
define internal void @minicc_rest(ptr %team, ptr %health) nounwind {{
entry:
  %back.at = getelementptr i64, ptr %health, i64 1
  %rest.at = getelementptr i64, ptr %health, i64 2
  %share.at = getelementptr i64, ptr %health, i64 6
  %begin = call i64 @llvm.readcyclecounter()
  %back = load i64, ptr %back.at
  %rest = load i64, ptr %rest.at
  %share = load i64, ptr %share.at
  %word = getelementptr i8, ptr %team, i64 %share
  %since = sub i64 %begin, %back
  %long = mul i64 %rest, 16
  %limit = add i64 %long, {_SOON}
  %soon = icmp ult i64 %since, %limit
  %double = mul i64 %rest, 2
  %longer = call i64 @llvm.umin.i64(i64 %double, i64 {_LONGEST_REST})
  %chosen = select i1 %soon, i64 %longer, i64 {REST}
  store i64 %chosen, ptr %rest.at
  %first = load atomic i64, ptr %team monotonic, align 8
  br label %more
more:
  %left = phi i64 [%chosen, %entry], [%less, %look]
  %launch = phi i64 [%first, %entry], [%now, %look]
  %part = call i64 @llvm.umin.i64(i64 %left, i64 {_LOOK})
  call void @minicc_sleep(ptr %team, i64 %part)
  %less = sub i64 %left, %part
  %over = icmp eq i64 %less, 0
  br i1 %over, label %end, label %look
look:
  %now = load atomic i64, ptr %team monotonic, align 8
  %same = icmp eq i64 %now, %launch
  %work = call i1 @minicc_left(ptr %word, i64 %now)
  %lasts = and i1 %same, %work
  br i1 %lasts, label %end, label %more
end:
  %later = call i64 @llvm.readcyclecounter()
  store i64 %later, ptr %back.at
  ret void
}}

; sleep for so many nanoseconds, unless the team is closed
define internal void @minicc_sleep(ptr %team, i64 %nanoseconds) nounwind noinline {{
  %time = alloca [2 x i64], align 8
  %part.at = getelementptr i64, ptr %time, i64 1
  %closed = getelementptr i8, ptr %team, i64 {CLOSED}
  store i64 0, ptr %time
  store i64 %nanoseconds, ptr %part.at
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %closed, i32 {WAIT}, i32 0, ptr %time)
  ret void
}}
"""
