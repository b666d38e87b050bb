// Loops whose counts the compiler knows are unrolled wholly, so that their arrays live in registers.
#pragma once

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
