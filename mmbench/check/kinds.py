"""The kinds of findings: one table with what each is called, means, and how it is mended.

The slugs are those of the runtime (runners/simt/checked_*.c) and of ``comparison``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "note"]


@dataclass(frozen=True)
class Kind:
    """A kind of finding. ``sentence`` is filled with the fields that ``findings`` computes."""

    slug: str
    sentence: str
    explanation: str
    hint: str
    severity: Severity = "error"


_KINDS = (
    Kind(
        "shared-race",
        "{variable} is {verb} here by thread {thread} and {other_verb} in line {other_line} by "
        "thread {other_thread}: a __syncthreads() is missing {gap}",
        "Two warps access the same word of shared memory, at least one of them stores, and no "
        "barrier orders them.",
        "Put a __syncthreads() {gap}, where every thread of the block reaches it.",
    ),
    Kind(
        "shared-store-race",
        "{variable} is written in this line by thread {thread} and by thread {other_thread}, and "
        "nothing orders them",
        "Several threads of a block store to the same element of shared memory; which value stays "
        "is a matter of chance.",
        "Let one thread store it, or give each thread an element of its own.",
    ),
    Kind(
        "warp-race",
        "{variable} is {verb} here by thread {thread} and {other_verb} in line {other_line} by "
        "thread {other_thread} of the same warp: a __syncwarp() is missing {gap}",
        "Two threads of one warp access the same word of shared memory, at least one of them "
        "stores, and nothing orders them; a warp does not run in lockstep since Volta.",
        "Put a __syncwarp() (or a __syncthreads()) {gap}.",
    ),
    Kind(
        "global-race",
        "{variable} is {verb} here by thread {thread} of block {block} and {other_verb} in line "
        "{other_line} by thread {other_thread} of block {other_block}, and nothing orders them",
        "Two threads access the same element of C, at least one of them stores, and no barrier "
        "orders them; blocks run in no order at all.",
        "Let one thread own each element of C, or add to it with atomicAdd.",
    ),
    Kind(
        "out-of-bounds-read",
        "thread {thread} of block {block} reads {variable}, {beyond}",
        "An index leaves the matrix that its pointer belongs to.",
        "Guard the access at the edges of the matrix, and let what lies outside count as 0.",
    ),
    Kind(
        "out-of-bounds-write",
        "thread {thread} of block {block} writes {variable}, {beyond}",
        "An index leaves the matrix that its pointer belongs to, and what lies there is "
        "overwritten.",
        "Store only where row < M and col < N.",
    ),
    Kind(
        "null-pointer",
        "thread {thread} of block {block} {verb_now} address {address}: the pointer is null",
        "The kernel uses a null pointer.",
        "Look where the pointer comes from; a GPU stops here with an illegal memory access.",
    ),
    Kind(
        "wild-address",
        "thread {thread} of block {block} {verb_now} address {address}, which belongs to no "
        "matrix",
        "The address is so far from every matrix that it cannot be said which was meant.",
        "Look for an index that overflows, or a pointer that was never set.",
    ),
    Kind(
        "shared-out-of-bounds",
        "thread {thread} of block {block} uses {variable}, outside the array {declared}",
        "An index leaves a shared array, or one dimension of it, as it is declared.",
        "Compare the loop's limit with the declared size of the array.",
    ),
    Kind(
        "local-out-of-bounds",
        "thread {thread} of block {block} uses {variable}, outside the array {declared}",
        "An index leaves an array that each thread has for itself.",
        "Compare the loop's limit with the declared size of the array.",
    ),
    Kind(
        "dynamic-shared-too-small",
        "thread {thread} of block {block} uses {variable}, but the launch gives a block "
        "{extra} bytes of dynamic shared memory",
        "The kernel uses more dynamic shared memory than the launch gives it.",
        "Raise dynamic_shared_bytes in the header's [launch] table.",
    ),
    Kind(
        "uninitialised-shared",
        "thread {thread} of block {block} reads {variable}, which no thread of the block has "
        "written",
        "Shared memory is read before anybody wrote it, and the value ends up in C.",
        "Write every element that is read; tiles at the edge are filled up with 0.",
    ),
    Kind(
        "stale-shared",
        "thread {thread} of block {block} reads {variable}, which line {other_line} wrote in an "
        "earlier step and not in this one",
        "An element of a shared array still holds what an earlier step put there, and C is "
        "wrong: that is the likely cause.",
        "Write every element of the tile in every step, with 0 for what lies outside.",
        "note",
    ),
    Kind(
        "c-read-before-written",
        "thread {thread} of block {block} reads {variable}, which the kernel has not written",
        "The result depends on what C held before the launch.",
        "Begin with 0 and store the sum, instead of adding to what C holds. Where adding is meant "
        "(split-K on a C that the host has cleared), say so with --beta 1.",
    ),
    Kind(
        "c-read-unused",
        "thread {thread} of block {block} reads {variable}, which the kernel has not written; "
        "the value makes no difference",
        "C is read before it is written, but the value makes no difference (as with beta = 0).",
        "Leave the read out where beta is 0: it costs as much traffic as the store.",
        "note",
    ),
    Kind(
        "barrier-divergence",
        "thread {thread} waits at the __syncthreads() here while thread {other_thread} of the "
        "same block waits at that of line {other_line}",
        "The threads of a block wait at different barriers, which is undefined.",
        "Move __syncthreads() out of the branch, so that all threads reach the same one.",
    ),
    Kind(
        "barrier-after-exit",
        "thread {thread} of block {block} waits at this __syncthreads(), but thread "
        "{other_thread}{and_others} has ended{passed}: it returned early, skipped the barrier, "
        "or runs the loop less often",
        "Some threads of a block wait at a barrier that others never reach, which is undefined.",
        "Let every thread reach every __syncthreads(): guard the loads and the store instead of "
        "returning early, and give all threads the same number of steps.",
    ),
    Kind(
        "misaligned-access",
        "thread {thread} of block {block} accesses {extra_bytes} bytes at {variable}, which is no "
        "multiple of {extra_bytes} bytes; a GPU stops here",
        "A vector such as float4 is loaded or stored at an address that is not a multiple of its "
        "size.",
        "Use vectors only where the row length is a multiple of the vector, or load the edge one "
        "element at a time.",
    ),
    Kind(
        "input-written",
        "thread {thread} of block {block} writes {variable}; A and B are inputs",
        "The kernel changes one of its inputs.",
        "Check the order of the arguments, here and in the header.",
    ),
    Kind(
        "warp-divergence",
        "thread {thread} waits here for its warp, but thread {other_thread}, which the mask names, "
        "does not come{elsewhere}",
        "A shuffle, a vote or a __syncwarp() is not reached by all threads that its mask names.",
        "Move it out of the branch, or make a mask of the threads that reach it.",
    ),
    Kind(
        "mask-without-caller",
        "thread {thread} calls this with the mask {mask}, which does not name the thread itself",
        "A thread that uses a warp function must be named in its mask.",
        "Use 0xffffffff where all threads of the warp take part.",
    ),
    Kind(
        "shuffle-source",
        "thread {thread} takes a value from thread {other_thread}, which does not take part",
        "A shuffle reads from a lane that has ended, is not named in the mask, or does not exist.",
        "Let all lanes take part, with 0 for those that have nothing to add.",
    ),
    Kind(
        "assert-failed",
        "the assertion {text} fails in thread {thread} of block {block}",
        "A device-side assert fails.",
        "The kernel asks for another launch shape or size than it gets.",
    ),
    Kind(
        "crash",
        "thread {thread} of block {block} {crash}",
        "The kernel ended the process that ran it.",
        "Look at divisions, at recursion, and at very large local arrays.",
    ),
    Kind(
        "c-not-written",
        "{count} of {total} elements of C are never written, the first is {variable}",
        "The grid, or a guard, leaves elements of C out.",
        "Round the grid up: ceil_div(N, TILE_SIZE); and compare each guard with its edge.",
    ),
    Kind(
        "nan-result",
        "thread {thread} of block {block} stores NaN into {variable}, though A and B hold none: a "
        "local variable, such as the sum, is probably used before it has a value",
        "C holds NaN although all inputs are finite.",
        "Give the sum its first value: float acc = 0.0f.",
    ),
    Kind(
        "wrong-result",
        "thread {thread} of block {block} stores {stored} into {variable}, which should be "
        "{expected}",
        "No access is at fault, but C is not the product of A and B.",
        "Follow this one thread: compare the elements of A and B that it reads with those that it "
        "should.",
    ),
    Kind(
        "unseen-store",
        "{count} elements of C were written by code that the compiler does not report (a struct "
        "returned by a function); they are missing in the counts",
        "The checked build did not see a store, so its counts and races are incomplete.",
        "Nothing is wrong with the kernel; assign the struct's members one by one to have it "
        "counted.",
        "note",
    ),
)  # fmt: skip

KINDS = {kind.slug: kind for kind in _KINDS}
