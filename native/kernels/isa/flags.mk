# The compiler's flags, once: CMakeLists.txt builds the extension with these lines and native/tests/Makefile the tests,
# so that what is tested is what is shipped. Both read "NAME = words"; references to other names only make would follow.

# A product and a sum are fused only where the kernels say so: by default Clang fuses others too, and then what a row
# gets could depend on whether it is done side by side with others.
FLAGS = -ffp-contract=off

# Which files of this folder each family of processors has beside portable.cpp, and what each needs more.
ISAS_x86_64 = avx2 avxvnni avx512vnni amx
ISAS_aarch64 = neon
FLAGS_avx2 = -mavx2 -mfma -mf16c
FLAGS_avxvnni = -mavx2 -mfma -mf16c -mavxvnni
FLAGS_avx512vnni = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma
FLAGS_amx = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mamx-tile -mamx-int8
FLAGS_neon = -march=armv8.2-a+dotprod
