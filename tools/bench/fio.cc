#include "tools/bench/fio.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "offload/bytes.h"
#include "tools/program.h"
#include "tools/system_text.h"

namespace kvbed {
namespace {

using FioJson = nlohmann::json;

// fio splits file names at colons.
std::string EscapedFileName(const std::string& path) {
  std::string out;
  for (char c : path) {
    if (c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string JobOptions(const FioJob& job) {
  std::string text = fmt::format(
      "filename={}\n"
      "rw={}{}\n"
      "bs={}\n"
      "size={}\n"
      "ioengine={}\n"
      "iodepth={}\n"
      "direct={}\n",
      EscapedFileName(job.file), job.random ? "rand" : "", job.write ? "write" : "read",
      job.block_bytes, job.block_bytes * job.blocks, job.ioengine, job.iodepth, job.direct ? 1 : 0);
  if (!job.direct) text += "invalidate=0\n";
  if (job.registered) text += "fixedbufs=1\nregisterfiles=1\n";
  if (job.write) {
    text += fmt::format("end_fsync=1\nfallocate={}\n",
                        job.file_state == FioFileState::kPreallocated ? "native" : "none");
  }
  if (job.huge_pages) text += "mem=mmaphuge\n";
  return text;
}

std::string FirstLine(const std::string& text) {
  const auto lines = SplitLines(text);
  return lines.empty() ? "it says nothing" : std::string(Trimmed(lines[0]));
}

double NumberAt(const FioJson& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

std::string FioJobText(const FioJob& job) { return "[kvbed]\n" + JobOptions(job); }

std::string FioCeilingsText(const FioJob& job) {
  FioJob write = job, read = job;
  write.write = true;
  read.write = false;
  return "[prepare]\n" + JobOptions(write) + "[write]\nstonewall\n" + JobOptions(write) +
         "[read]\nstonewall\n" + JobOptions(read);
}

Result<FioResult> ParseFioOutput(const std::string& output, const FioJob& job) {
  // Warnings may stand before the object.
  const size_t begin = output.find("{\n");
  const FioJson json =
      begin == std::string::npos ? FioJson() : FioJson::parse(output.substr(begin), nullptr, false);
  if (!json.is_object() || !json.contains("jobs") || !json["jobs"].is_array() ||
      json["jobs"].empty()) {
    return Status::IoError(fmt::format("fio's output is no result: {}", FirstLine(output)));
  }
  const FioJson& ran = json["jobs"][0];
  if (const double error = NumberAt(ran, "error"); error != 0) {
    return StatusFromErrno(static_cast<int>(error), "fio");
  }
  const char* const direction = job.write ? "write" : "read";
  if (!ran.contains(direction)) return Status::IoError("fio's result has no such direction");
  const FioJson& side = ran[direction];
  FioResult result;
  result.bytes = static_cast<uint64_t>(NumberAt(side, "io_bytes"));
  if (result.bytes != job.block_bytes * job.blocks) {
    return Status::IoError(
        fmt::format("fio moved {} bytes of {}", result.bytes, job.block_bytes * job.blocks));
  }
  const double gigabytes = static_cast<double>(result.bytes) / 1e9;
  const double runtime_s = NumberAt(side, "runtime") / 1e3;
  if (runtime_s <= 0) return Status::IoError("fio gives no run time: the transfer is too short");
  result.gb_per_s = gigabytes / runtime_s;
  const double cpu_percent = NumberAt(ran, "usr_cpu") + NumberAt(ran, "sys_cpu");
  result.cpu_s_per_gb = cpu_percent / 100 * NumberAt(ran, "job_runtime") / 1e3 / gigabytes;
  return result;
}

Result<std::string> FioVersion() {
  KVBED_ASSIGN_OR_RETURN(const ProgramResult result, RunProgram({"fio", "--version"}));
  return std::string(Trimmed(result.out));
}

Result<FioResult> RunFio(const FioJob& job, const std::string& job_file) {
  std::ofstream out(job_file, std::ios::trunc);
  out << FioJobText(job);
  out.close();
  if (!out) return Status::IoError(fmt::format("write {}", job_file));
  KVBED_ASSIGN_OR_RETURN(const ProgramResult ran,
                         RunProgram({"fio", "--output-format=json", job_file}));
  if (ran.exit_code != 0) {
    return Status::IoError(fmt::format("fio ended with {}: {}", ran.exit_code,
                                       FirstLine(ran.err.empty() ? ran.out : ran.err)));
  }
  return ParseFioOutput(ran.out, job);
}

Status CheckHugePages(const FioJob& job, const std::string& meminfo) {
  const uint64_t free_pages = MemInfoBytes(meminfo, "HugePages_Free").value_or(0);
  const uint64_t page_bytes = MemInfoBytes(meminfo, "Hugepagesize").value_or(0);
  const uint64_t wanted_bytes = job.block_bytes * job.iodepth;
  if (page_bytes > 0 && free_pages * page_bytes >= RoundUp(wanted_bytes, page_bytes) + page_bytes) {
    return Status::Ok();
  }
  return Status::NotFound(
      fmt::format("{} bytes of hugetlb memory are free, {} are needed (sysctl vm.nr_hugepages)",
                  free_pages * page_bytes, wanted_bytes + page_bytes));
}

}  // namespace kvbed
