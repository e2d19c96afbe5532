# kvbed_embed(TARGET HEADER FUNCTION [FILES files...]): adds a source to TARGET that defines the function of HEADER
#   std::string_view kvbed::FUNCTION();  // the files' bytes, one file after the other
# The assembler reads the files, so that their size costs no compile time and the program needs none of them later.
function(kvbed_embed target header function)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(bytes "")
  foreach(file IN LISTS ARG_FILES)
    get_filename_component(file "${file}" ABSOLUTE)
    list(APPEND paths "${file}")
    string(APPEND bytes "    \".incbin \\\"${file}\\\"\\n\"\n")
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/embedded.cc.in ${source} @ONLY)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${paths}" SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
