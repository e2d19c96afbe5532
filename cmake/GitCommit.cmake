# Writes the source file that defines kvbed::GitCommit(), at each build and only when it changes:
#   cmake -DSOURCE_DIR=... -DOUTPUT=.../git_commit.cc -P GitCommit.cmake
# The commit is empty without git, outside a checkout, and where the checkout around the sources is another project's.
set(commit "")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} rev-parse --show-prefix
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE prefix RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND prefix STREQUAL "")
    execute_process(COMMAND ${git} rev-parse --short=12 HEAD
      WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${git} --no-optional-locks status --porcelain --untracked-files=no
      WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(commit AND changes)
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()
set(text "#include \"tools/version.h\"\n\nnamespace kvbed {\n\nstd::string GitCommit() { return \"${commit}\"; }\n\n}  // namespace kvbed\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
