// The files that a report is made of, as they are inside the program: tools/report/page, and the
// chart library that CMake found. It doesn't know what is in them.
#pragma once

#include <string_view>

namespace kvbed {

// Each is defined in a source that CMake writes (cmake/EmbedFiles.cmake).
std::string_view ReportPageHtml();
std::string_view ReportStyle();
std::string_view ReportErrorScript();
std::string_view ReportScript();
// Empty in a build without Chart.js.
std::string_view ReportChartLibrary();

}  // namespace kvbed
