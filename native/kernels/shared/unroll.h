// Loops whose counts the compiler knows are unrolled wholly, so that their arrays live in registers; what runs between
// products is a function of its own, and so is its rare part: inlined, they made the products 3% slower (gcc 12).
#pragma once

#if defined(__GNUC__)
#define UWAGA_NOINLINE __attribute__((noinline))
#define UWAGA_COLD __attribute__((noinline, cold))
#else
#define UWAGA_NOINLINE
#define UWAGA_COLD
#endif

#define UWAGA_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
// It warns of a loop that stays one: in a template, a count may be known in one instance only.
#pragma clang diagnostic ignored "-Wpass-failed"
#define UWAGA_UNROLL _Pragma("unroll")
#define UWAGA_UNROLL_BY(n) UWAGA_PRAGMA(unroll(n))
#elif defined(__GNUC__)
#define UWAGA_UNROLL _Pragma("GCC unroll 32")
#define UWAGA_UNROLL_BY(n) UWAGA_PRAGMA(GCC unroll n)
#else
#define UWAGA_UNROLL
#define UWAGA_UNROLL_BY(n)
#endif
