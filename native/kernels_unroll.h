// Loops whose counts the compiler knows are unrolled wholly, so that their arrays live in registers.
#pragma once

#if defined(__clang__)
#define UWAGA_UNROLL _Pragma("unroll")
#define UWAGA_UNROLL_BY(n) _Pragma("unroll")
#elif defined(__GNUC__)
#define UWAGA_UNROLL _Pragma("GCC unroll 32")
#define UWAGA_UNROLL_BY(n) UWAGA_PRAGMA(GCC unroll n)
#define UWAGA_PRAGMA(text) _Pragma(#text)
#else
#define UWAGA_UNROLL
#define UWAGA_UNROLL_BY(n)
#endif
