# build.cpp with the facts that `uwaga --version` prints. The commit is UWAGA_COMMIT of the environment, that of the
# clone, or that in the file COMMIT of an sdist, in this order.
set(UWAGA_COMMIT "$ENV{UWAGA_COMMIT}")
if(NOT UWAGA_COMMIT AND EXISTS "${CMAKE_SOURCE_DIR}/.git")
  execute_process(
    COMMAND git describe --always --dirty --abbrev=40 --exclude=* WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE UWAGA_COMMIT ERROR_QUIET RESULT_VARIABLE ignored)
endif()
if(NOT UWAGA_COMMIT AND EXISTS "${CMAKE_SOURCE_DIR}/COMMIT")
  file(STRINGS "${CMAKE_SOURCE_DIR}/COMMIT" UWAGA_COMMIT LIMIT_COUNT 1)
endif()
if(NOT UWAGA_COMMIT MATCHES "^[0-9a-f]+(-dirty)?$")
  set(UWAGA_COMMIT unknown)
endif()

# Paths are left out: two builds of the same commit are equal wherever they lie.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
separate_arguments(words NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
list(APPEND words ${FLAGS})
if(UWAGA_SANITIZE)
  list(APPEND words -fsanitize=${UWAGA_SANITIZE})
endif()
list(FILTER words EXCLUDE REGEX "[/\\\\\"]")
list(JOIN words " " build_flags)
list(JOIN isas " " build_isas)
set(build_type "${CMAKE_BUILD_TYPE}")
configure_file(cmake/build.cpp.in "${CMAKE_BINARY_DIR}/build.cpp" @ONLY)
