# Finds Chart.js 3 or 4 as one file that a plain script element can hold, which the page of `kvbed report` carries inside:
# ChartJs_FOUND, ChartJs_FILE, ChartJs_VERSION. Debian's package libjs-chart.js has it; the name depends on the version.
# -DChartJs_FILE=FILE names one.
include(FindPackageHandleStandardArgs)
set(candidates "${ChartJs_FILE}")
if(NOT ChartJs_FILE)
  foreach(folder /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist /usr/local/share/javascript/chart.js)
    foreach(name chart.umd.min.js chart.umd.js chart.min.js chart.js)
      list(APPEND candidates ${folder}/${name})
    endforeach()
  endforeach()
endif()

unset(ChartJs_VERSION)
foreach(file IN LISTS candidates)
  if(NOT EXISTS "${file}" OR IS_DIRECTORY "${file}")
    continue()
  endif()
  file(READ "${file}" head LIMIT 4096)
  # A module, which needs other files, has no "define.amd"; one without the banner would go into pages without its licence.
  if(head MATCHES "define\\.amd" AND head MATCHES "Chart\\.js v([34]\\.[0-9.]*[0-9])")
    set(ChartJs_VERSION ${CMAKE_MATCH_1})
    set(ChartJs_FILE "${file}")
    break()
  endif()
endforeach()
find_package_handle_standard_args(ChartJs REQUIRED_VARS ChartJs_FILE ChartJs_VERSION VERSION_VAR ChartJs_VERSION
  REASON_FAILURE_MESSAGE "(Debian: libjs-chart.js, version 3 or 4), without which kvbed report says so and draws nothing")
