# Finds Chart.js 3 or 4 as one file that a plain script element can hold, which the page of `kvbed report` carries inside:
# ChartJs_FOUND, ChartJs_FILE, ChartJs_VERSION. Debian's package libjs-chart.js has it; the name depends on the version.
# -DChartJs_FILE=FILE takes another one.
include(FindPackageHandleStandardArgs)
find_file(ChartJs_FILE NAMES chart.umd.min.js chart.umd.js chart.min.js Chart.min.js
  PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist /usr/local/share/javascript/chart.js
  DOC "Chart.js as one file")

unset(ChartJs_VERSION)
if(ChartJs_FILE AND EXISTS "${ChartJs_FILE}")
  file(READ "${ChartJs_FILE}" head LIMIT 4096)
  # A module, which needs other files, has no "define.amd".
  if(head MATCHES "Chart\\.js v([0-9]+\\.[0-9.]*[0-9])" AND head MATCHES "define\\.amd")
    string(REGEX MATCH "Chart\\.js v([0-9]+\\.[0-9.]*[0-9])" ignored "${head}")
    set(ChartJs_VERSION ${CMAKE_MATCH_1})
  endif()
  if(ChartJs_VERSION VERSION_LESS 3 OR ChartJs_VERSION VERSION_GREATER_EQUAL 5)
    unset(ChartJs_VERSION)
  endif()
endif()
find_package_handle_standard_args(ChartJs REQUIRED_VARS ChartJs_FILE ChartJs_VERSION VERSION_VAR ChartJs_VERSION
  REASON_FAILURE_MESSAGE "(Debian: libjs-chart.js, version 3 or 4), without which kvbed report says so and draws nothing")
mark_as_advanced(ChartJs_FILE)
