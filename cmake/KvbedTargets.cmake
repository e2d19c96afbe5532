# kvbed_library(NAME [UNTIMED] SOURCES ... HEADERS ... [PUBLIC libs] [PRIVATE libs]): the static library of one folder,
# with the alias kvbed::NAME, the project's warnings, and its headers compiled alone (all_verify_interface_header_sets).
# UNTIMED: none of it runs while storage is timed, so it takes KVBED_UNTIMED_OPTIONS too.
function(kvbed_library name)
  cmake_parse_arguments(ARG "UNTIMED" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  add_library(kvbed_${name} STATIC ${ARG_SOURCES})
  add_library(kvbed::${name} ALIAS kvbed_${name})
  target_sources(kvbed_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  target_link_libraries(kvbed_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  kvbed_warnings(kvbed_${name})
  # The torch module takes some of them in.
  set_target_properties(kvbed_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(ARG_UNTIMED)
    separate_arguments(options NATIVE_COMMAND "${KVBED_UNTIMED_OPTIONS}")
    target_compile_options(kvbed_${name} PRIVATE ${options})
  endif()
endfunction()

function(kvbed_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                           -Wnon-virtual-dtor -Woverloaded-virtual)
  if(KVBED_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
