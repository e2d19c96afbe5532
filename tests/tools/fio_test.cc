// fio's jobs and results.
#include "tools/bench/fio.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr FioJob kWrite{
    .write = true, .file = {}, .block_bytes = 372736, .blocks = 10, .iodepth = 16};

FioJob WriteTo(const std::string& file) {
  FioJob job = kWrite;
  job.file = file;
  return job;
}

TEST(FioJob, HasTheRecordsBytesAsBlockSizeAndAnEndingSync) {
  EXPECT_EQ(FioJobText(WriteTo("/data/f")),
            "[kvbed]\nfilename=/data/f\nrw=write\nbs=372736\nsize=3727360\nioengine=io_uring\n"
            "iodepth=16\ndirect=1\nend_fsync=1\nfallocate=none\n");
}

TEST(FioJob, AReadHasNoSyncAndHugePagesAreAsked) {
  FioJob job = WriteTo("/data/f");
  job.write = false;
  job.huge_pages = true;
  EXPECT_EQ(FioJobText(job),
            "[kvbed]\nfilename=/data/f\nrw=read\nbs=372736\nsize=3727360\nioengine=io_uring\n"
            "iodepth=16\ndirect=1\nmem=mmaphuge\n");
}

TEST(FioJob, AFirstWriteIsPreallocated) {
  FioJob job = WriteTo("/data/f");
  job.file_state = FioFileState::kPreallocated;
  EXPECT_NE(FioJobText(job).find("fallocate=native"), std::string::npos);
}

TEST(FioJob, HasTheShapeOfASweepsPoint) {
  FioJob job = WriteTo("/data/f");
  job.ioengine = "psync";
  job.direct = false;
  job.random = true;
  job.registered = true;
  EXPECT_EQ(FioJobText(job),
            "[kvbed]\nfilename=/data/f\nrw=randwrite\nbs=372736\nsize=3727360\nioengine=psync\n"
            "iodepth=16\ndirect=0\ninvalidate=0\nfixedbufs=1\nregisterfiles=1\nend_fsync=1\n"
            "fallocate=none\n");
}

TEST(FioJob, ColonsInAPathAreNoListOfFiles) {
  EXPECT_NE(FioJobText(WriteTo("/a:b")).find("filename=/a\\:b\n"), std::string::npos);
}

TEST(FioCeilings, RunOneAfterAnotherOverAWrittenFile) {
  const std::string text = FioCeilingsText(WriteTo("ceiling.dat"));
  const size_t prepare = text.find("[prepare]"), write = text.find("[write]\nstonewall"),
               read = text.find("[read]\nstonewall");
  ASSERT_NE(read, std::string::npos);
  EXPECT_LT(prepare, write);
  EXPECT_LT(write, read);
}

// As fio 3.33 writes it, shortened.
std::string Output(const std::string& error, const std::string& io_bytes,
                   const std::string& runtime) {
  return "fio: a warning comes first\n{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n    {\n"
         "      \"jobname\" : \"kvbed\",\n      \"error\" : " +
         error + ",\n      \"job_runtime\" : 500,\n      \"usr_cpu\" : 2.0,\n" +
         "      \"sys_cpu\" : 8.0,\n      \"write\" : {\n        \"io_bytes\" : " + io_bytes +
         ",\n        \"bw_bytes\" : 7454720,\n        \"runtime\" : " + runtime +
         "\n      },\n      \"read\" : {\"io_bytes\" : 0, \"runtime\" : 0}\n    }\n  ]\n}\n";
}

TEST(FioOutput, GivesBandwidthAndCpuPerGigabyte) {
  ASSERT_OK_AND_ASSIGN(const FioResult result,
                       ParseFioOutput(Output("0", "3727360", "500"), WriteTo("f")));
  EXPECT_EQ(result.bytes, 3727360u);
  EXPECT_DOUBLE_EQ(result.gb_per_s, 3727360 / 1e9 / 0.5);
  EXPECT_DOUBLE_EQ(result.cpu_s_per_gb, 0.1 * 0.5 / (3727360 / 1e9));
}

TEST(FioOutput, AnIncompleteRunIsAnErrorAndNoSample) {
  EXPECT_TRUE(FailsWith(ParseFioOutput(Output("0", "372736", "500"), WriteTo("f")).status(),
                        StatusCode::kIoError, "372736 bytes of 3727360"));
  EXPECT_TRUE(FailsWith(ParseFioOutput(Output("28", "3727360", "500"), WriteTo("f")).status(),
                        StatusCode::kOutOfSpace, "fio"));
  EXPECT_TRUE(FailsWith(ParseFioOutput(Output("0", "3727360", "0"), WriteTo("f")).status(),
                        StatusCode::kIoError, "too short"));
  FioJob read = WriteTo("f");
  read.write = false;
  EXPECT_TRUE(FailsWith(ParseFioOutput(Output("0", "3727360", "500"), read).status(),
                        StatusCode::kIoError));
}

TEST(FioOutput, NoResultIsAnErrorWithWhatFioSaid) {
  EXPECT_TRUE(FailsWith(ParseFioOutput("fio: unknown option\n", WriteTo("f")).status(),
                        StatusCode::kIoError, "unknown option"));
  EXPECT_FALSE(ParseFioOutput("{\n \"jobs\" : []}", WriteTo("f")).ok());
  EXPECT_FALSE(ParseFioOutput("{\n \"jobs\" : 7}", WriteTo("f")).ok());
  EXPECT_FALSE(ParseFioOutput("{\n", WriteTo("f")).ok());
  EXPECT_FALSE(ParseFioOutput("", WriteTo("f")).ok());
}

TEST(FioHugePages, AreAskedOnlyWhereTheyAreFree) {
  const char* some = "HugePages_Free: 4\nHugepagesize: 2048 kB\n";
  EXPECT_OK(CheckHugePages(kWrite, some));
  EXPECT_TRUE(FailsWith(CheckHugePages(kWrite, "HugePages_Free: 0\nHugepagesize: 2048 kB\n"),
                        StatusCode::kNotFound, "nr_hugepages"));
  EXPECT_FALSE(CheckHugePages(kWrite, "").ok());
  FioJob deep = kWrite;
  deep.iodepth = 32;
  EXPECT_FALSE(CheckHugePages(deep, some).ok());
}

}  // namespace
}  // namespace kvbed
