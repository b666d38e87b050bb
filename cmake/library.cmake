# libuwaga, static and shared: target uwaga::uwaga is the shared one, uwaga::static the other.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The version is stated once, in pyproject.toml.
file(STRINGS pyproject.toml version REGEX "^version = ")
string(REGEX REPLACE "^version = \"(.*)\"$" "\\1" version "${version}")
string(REGEX MATCH "^[0-9]+" major "${version}")

add_library(uwaga_objects OBJECT ${library} ${sources})
set_target_properties(uwaga_objects PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(uwaga_objects PRIVATE native)
target_compile_definitions(uwaga_objects PRIVATE UWAGA_SHARED UWAGA_VERSION="${version}" $<$<BOOL:${UWAGA_PORTABLE}>:UWAGA_PORTABLE>)
target_compile_options(uwaga_objects PRIVATE -Wall -Wextra ${FLAGS})
if(UWAGA_SANITIZE)  # e.g. address,undefined
  target_compile_options(uwaga_objects PRIVATE -fsanitize=${UWAGA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g -O0)
endif()

add_library(uwaga_shared SHARED $<TARGET_OBJECTS:uwaga_objects> ${objects})
set_target_properties(uwaga_shared PROPERTIES OUTPUT_NAME uwaga VERSION ${version} SOVERSION ${major} EXPORT_NAME uwaga)
add_library(uwaga_static STATIC $<TARGET_OBJECTS:uwaga_objects> ${objects})
set_target_properties(uwaga_static PROPERTIES OUTPUT_NAME uwaga EXPORT_NAME static)
foreach(target IN ITEMS uwaga_shared uwaga_static)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/native/c> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE Threads::Threads)
  if(UWAGA_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${UWAGA_SANITIZE})
  endif()
endforeach()

install(TARGETS uwaga_shared uwaga_static EXPORT uwaga COMPONENT library)
install(FILES native/c/uwaga.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT uwaga NAMESPACE uwaga:: FILE uwaga-targets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/uwaga COMPONENT library)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/uwaga-config.cmake
  "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\ninclude(\"\${CMAKE_CURRENT_LIST_DIR}/uwaga-targets.cmake\")\n")
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/uwaga-config-version.cmake VERSION ${version} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/uwaga-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/uwaga-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/uwaga COMPONENT library)
configure_file(cmake/uwaga.pc.in uwaga.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/uwaga.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
