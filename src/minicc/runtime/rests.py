"""When a worker rests: its core is wanted by another process.

A worker whose chunk took long because it was taken off its core (`getrusage` counts that) rests for
2 ms, and twice as long each time it happens again soon, up to a quarter of a second. To a launch
that takes longer than 30 to 50 ms it comes back after an eighth of that time or less: what its
caller may wait for in the end, a slice of the other process, is little then. Of a long chunk not
long after another one, clocks tell how much was lost, as the system itself takes a thread off for
microseconds.
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
_WATCHED = 64  # chunks after a long one before which clocks are read
REST, _LONGEST_REST = 2_000_000, 256_000_000  # ns
_PART = 5  # cycles of a long launch to ns of a rest from it, as a shift: 1/16 to 1/8 of the time
CLOSED = 24  # byte of a team's block (see `claims`) that says that it is closed

# %health is eight i64 of a worker's own: how often it was switched, when it came back from a rest,
# its rest, how many chunks it is still watched after a long one, two clocks at their beginning, the
# launch that it helps with, and since when
HEALTH = 8
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

; read the clocks before a chunk, if one not long ago was long
define internal void @minicc_note(ptr %health) nounwind {{
  %long.at = getelementptr i64, ptr %health, i64 3
  %long = load i64, ptr %long.at
  %short = icmp eq i64 %long, 0
  br i1 %short, label %done, label %read
read:
  %wall.at = getelementptr i64, ptr %health, i64 4
  %own.at = getelementptr i64, ptr %health, i64 5
  %wall = call i64 @minicc_clock(i32 {_MONOTONIC})
  %own = call i64 @minicc_clock(i32 {_THREAD_CPU})
  store i64 %wall, ptr %wall.at
  store i64 %own, ptr %own.at
  br label %done
done:
  ret void
}}

; whether that happened amid a chunk begun then, for long; it has rested after it
define internal i1 @minicc_crowded(ptr %team, ptr %health, i64 %begin) nounwind {{
  %now = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %now, %begin
  %long = icmp ugt i64 %spent, {_STOLEN}
  %long.at = getelementptr i64, ptr %health, i64 3
  %noted = load i64, ptr %long.at
  %sooner = call i64 @llvm.umax.i64(i64 %noted, i64 1)
  %fewer = sub i64 %sooner, 1
  %watched = select i1 %long, i64 {_WATCHED}, i64 %fewer
  store i64 %watched, ptr %long.at
  br i1 %long, label %look, label %no
look:
  %switches = call i64 @minicc_switches()
  %known = load i64, ptr %health
  store i64 %switches, ptr %health
  %same = icmp eq i64 %switches, %known
  br i1 %same, label %no, label %judge
judge:
  %untold = icmp eq i64 %noted, 0
  br i1 %untold, label %rest, label %measure
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
  br i1 %stolen, label %rest, label %no
rest:
  call void @minicc_rest(ptr %team, ptr %health)
  ret i1 true
no:
  ret i1 false
}}

; keep since when it helps with a launch
define internal void @minicc_arrive(ptr %health, i64 %launch) nounwind {{
  %launch.at = getelementptr i64, ptr %health, i64 6
  %before = load i64, ptr %launch.at
  %known = icmp eq i64 %before, %launch
  br i1 %known, label %done, label %keep
keep:
  %since.at = getelementptr i64, ptr %health, i64 7
  %now = call i64 @llvm.readcyclecounter()
  store i64 %launch, ptr %launch.at
  store i64 %now, ptr %since.at
  br label %done
done:
  ret void
}}

; stay away, the longer the sooner it happened again; less from a launch that takes long
define internal void @minicc_rest(ptr %team, ptr %health) nounwind {{
  %back.at = getelementptr i64, ptr %health, i64 1
  %rest.at = getelementptr i64, ptr %health, i64 2
  %begin = call i64 @llvm.readcyclecounter()
  %back = load i64, ptr %back.at
  %rest = load i64, ptr %rest.at
  %since = sub i64 %begin, %back
  %long = mul i64 %rest, 16
  %limit = add i64 %long, {_SOON}
  %soon = icmp ult i64 %since, %limit
  %double = mul i64 %rest, 2
  %longer = call i64 @llvm.umin.i64(i64 %double, i64 {_LONGEST_REST})
  %chosen = select i1 %soon, i64 %longer, i64 {REST}
  store i64 %chosen, ptr %rest.at
  %since.at = getelementptr i64, ptr %health, i64 7
  %joined = load i64, ptr %since.at
  %age = sub i64 %begin, %joined
  %old = icmp ugt i64 %age, {_SOON}
  br i1 %old, label %little, label %whole
little:
  %part = lshr i64 %age, {_PART}
  %short = call i64 @llvm.umin.i64(i64 %part, i64 %chosen)
  call void @minicc_sleep(ptr %team, i64 %short)
  %launch.at = getelementptr i64, ptr %health, i64 6
  %launch = load i64, ptr %launch.at
  %latest = load atomic i64, ptr %team monotonic, align 8
  %same = icmp eq i64 %latest, %launch
  br i1 %same, label %end, label %whole
whole:
  call void @minicc_sleep(ptr %team, i64 %chosen)
  br label %end
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
