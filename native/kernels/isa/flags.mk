# Compiler flags, used by CMakeLists.txt for the extension and by native/tests/Makefile for the tests, so that the tested
# code is the shipped code. Write "NAME = words" without references to other names: CMakeLists.txt does not expand them.

# Multiply-adds are fused only where the kernels say so: Clang by default fuses others too, and then a row's result could
# depend on whether it is computed together with others.
FLAGS = -ffp-contract=off

# The files of this folder for each processor family, in addition to portable.cpp, and their extra flags.
ISAS_x86_64 = avx2 avxvnni avx512vnni amx
ISAS_aarch64 = neon
FLAGS_avx2 = -mavx2 -mfma -mf16c
FLAGS_avxvnni = -mavx2 -mfma -mf16c -mavxvnni
FLAGS_avx512vnni = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma
FLAGS_amx = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mamx-tile -mamx-int8
FLAGS_neon = -march=armv8.2-a+dotprod
ISAS_wasm32 = wasm
FLAGS_wasm = -msimd128
