// Detection of the instruction sets that this processor supports, and their kernel tables.
#include "kernels/kernels.h"

#include <initializer_list>

#if defined(__x86_64__) && !defined(UWAGA_PORTABLE)
#define UWAGA_X86 1
#if defined(__linux__)
#define UWAGA_AMX 1
#endif
#elif defined(__aarch64__) && !defined(UWAGA_PORTABLE)
#define UWAGA_ARM 1
#endif
#if UWAGA_X86
#include <cpuid.h>
#endif
#if UWAGA_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__linux__) && UWAGA_ARM
#include <sys/auxv.h>
#endif

namespace uwaga {

extern const Kernels portable_kernels;
#if UWAGA_X86
extern const Kernels avx2_kernels, avxvnni_kernels, avx512vnni_kernels;
#if UWAGA_AMX
extern const Kernels amx_kernels;
#endif
#elif UWAGA_ARM
extern const Kernels neon_kernels;
#elif defined(__wasm__)
extern const Kernels wasm_kernels;
#endif

namespace {

#if UWAGA_X86

struct Features {
    bool avx2 = false, avxvnni = false, avx512vnni = false, amx = false;
};

uint64_t enabled_states() {  // XCR0: the register states that the operating system saves
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low | static_cast<uint64_t>(high) << 32;
}

// AMX tiles need permission, requested once per process; threads started later have it too.
bool tiles_permitted() {
#if UWAGA_AMX
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

Features detect_features() {
    Features f;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
    const bool fma = c >> 12 & 1, saves = c >> 27 & 1, f16c = c >> 29 & 1;
    if (!saves || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    const uint64_t states = enabled_states();
    const bool ymm = (states & 6) == 6, zmm = (states & 0xe6) == 0xe6, tiles = (states & 0x60000) == 0x60000;
    f.avx2 = ymm && (b >> 5 & 1) && fma && f16c;
    const bool avx512 = (b >> 16 & 1) && (b >> 17 & 1) && (b >> 30 & 1) && (b >> 31 & 1);  // F, DQ, BW, VL
    f.avx512vnni = f.avx2 && zmm && avx512 && (c >> 11 & 1);
    const bool amx = f.avx512vnni && tiles && (d >> 24 & 1) && (d >> 25 & 1);  // TILE, INT8
    f.amx = amx && tiles_permitted();
    uint32_t a1 = 0, b1 = 0, c1 = 0, d1 = 0;
    if (a >= 1 && __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1)) f.avxvnni = f.avx2 && (a1 >> 4 & 1);
    return f;
}

const Features& features() {
    static const Features f = detect_features();
    return f;
}

#elif UWAGA_ARM

bool has_dotprod() {
#if defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1;  // HWCAP_ASIMDDP
#elif defined(__APPLE__)
    return true;
#else
    return false;
#endif
}

#endif

}  // namespace

bool supported(Isa isa) {
    switch (isa) {
#if !defined(UWAGA_NO_PORTABLE)
        case Isa::portable: return true;
#endif
#if UWAGA_X86
        case Isa::avx2: return features().avx2;
        case Isa::avxvnni: return features().avxvnni;
        case Isa::avx512vnni: return features().avx512vnni;
        case Isa::amx: return features().amx;
#elif UWAGA_ARM
        case Isa::neon: return has_dotprod();
#elif defined(__wasm__)
        case Isa::wasm: return true;  // without vectors the module is not even loaded
#endif
        default: return false;
    }
}

const Kernels& kernels_of(Isa isa) {
    switch (isa) {
#if UWAGA_X86
        case Isa::avx2: return avx2_kernels;
        case Isa::avxvnni: return avxvnni_kernels;
        case Isa::avx512vnni: return avx512vnni_kernels;
#if UWAGA_AMX
        case Isa::amx: return amx_kernels;
#endif
#elif UWAGA_ARM
        case Isa::neon: return neon_kernels;
#elif defined(__wasm__)
        case Isa::wasm: return wasm_kernels;
#endif
#if defined(UWAGA_NO_PORTABLE)
        default: return wasm_kernels;
#else
        default: return portable_kernels;
#endif
    }
}

Isa best_isa() {
    for (const Isa isa : {Isa::amx, Isa::avx512vnni, Isa::avxvnni, Isa::avx2, Isa::neon, Isa::wasm}) {
        if (supported(isa)) return isa;
    }
    return Isa::portable;
}

}  // namespace uwaga
