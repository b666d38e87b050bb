// How this binary was built; CMakeLists.txt writes the values.
#pragma once

namespace uwaga {

struct BuildFacts {
    const char* commit;    // 40 hexadecimal digits, "-dirty" after them if files were changed; or "unknown"
    const char* compiler;  // name and version
    const char* type;      // Release, Debug
    const char* flags;     // of all files
    const char* isas;      // names of the instruction sets with kernels of their own, besides portable
};
extern const BuildFacts build_facts;

}  // namespace uwaga
