// Unrolling and inlining. Loops with constant counts are fully unrolled, so that their arrays stay in
// registers. Code between products is inlined only where it is short: more made products 3% slower (gcc 12).
#pragma once

#if defined(__wasm__)
#define UWAGA_INLINE inline  // a page loads each copy
#elif defined(__GNUC__)
#define UWAGA_INLINE inline __attribute__((always_inline))
#else
#define UWAGA_INLINE inline
#endif
#if defined(__GNUC__)
#define UWAGA_NOINLINE __attribute__((noinline))
#define UWAGA_COLD __attribute__((noinline, cold))
#else
#define UWAGA_NOINLINE
#define UWAGA_COLD
#endif

#define UWAGA_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
// Clang warns of loops that are not unrolled; in a template, a count may be constant in one instance only.
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
