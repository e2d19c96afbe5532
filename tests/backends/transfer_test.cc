// What a queue does with the device's answers, without a device.
#include "backends/transfer.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

using Next = Transfer::Next;

class TransferTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kAlignment = 512;

  File Open(bool direct, uint64_t size_bytes) {
    const std::string path = folder_ / "file";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(size_bytes)), 0);
    return {fd, path, direct, direct ? kAlignment : 1};
  }

  TempDir folder_;
  AlignedBuffer memory_ = Blank(64 * 1024);
};

TEST_F(TransferTest, AsksForEverythingAndIsDoneWhenEverythingCame) {
  const File file = Open(false, 8192);
  IoRequest request = Read(file, 4096, memory_.bytes().first(4096));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  EXPECT_EQ(transfer.call().offset, 4096u);
  EXPECT_EQ(transfer.call().length_bytes, 4096u);
  EXPECT_EQ(transfer.call().data, memory_.bytes().data());
  EXPECT_EQ(transfer.Answer(4096), Next::kDone);
  EXPECT_OK(request.status);
  EXPECT_EQ(request.done_bytes, 4096u);
  EXPECT_EQ(request.attempts, 1u);
}

TEST_F(TransferTest, AsksForTheRestAtAnAdvancedPlace) {
  const File file = Open(false, 8192);
  IoRequest request = Write(file, 100, memory_.bytes().first(1000));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  ASSERT_EQ(transfer.Answer(301), Next::kCall);
  EXPECT_EQ(transfer.call().offset, 401u);
  EXPECT_EQ(transfer.call().length_bytes, 699u);
  EXPECT_EQ(transfer.call().data, memory_.bytes().data() + 301);
  EXPECT_EQ(transfer.Answer(699), Next::kDone);
  EXPECT_OK(request.status);
  EXPECT_EQ(request.attempts, 2u);
}

TEST_F(TransferTest, GoesBackToTheLastAlignedPlaceOnADirectFile) {
  const File file = Open(true, 8192);
  IoRequest request = Write(file, 4096, memory_.bytes().first(4096));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  ASSERT_EQ(transfer.Answer(1000), Next::kCall);
  EXPECT_EQ(transfer.call().offset, 4096u + 512);
  EXPECT_EQ(transfer.call().data, memory_.bytes().data() + 512);
  EXPECT_EQ(transfer.call().length_bytes, 4096u - 512);
  EXPECT_EQ(transfer.Answer(4096 - 512), Next::kDone);
  EXPECT_OK(request.status);
  EXPECT_EQ(request.done_bytes, 4096u);
}

TEST_F(TransferTest, SplitsWhatIsLongerThanOneTransferMayBe) {
  const File file = Open(false, 0);
  IoRequest request = Write(file, 0, memory_.bytes().first(10000));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {.transfer_bytes_max = 4096});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  EXPECT_EQ(transfer.call().length_bytes, 4096u);
  ASSERT_EQ(transfer.Answer(4096), Next::kCall);
  EXPECT_EQ(transfer.call().offset, 4096u);
  ASSERT_EQ(transfer.Answer(4096), Next::kCall);
  EXPECT_EQ(transfer.call().length_bytes, 10000u - 8192);
  EXPECT_EQ(transfer.Answer(10000 - 8192), Next::kDone);
  EXPECT_OK(request.status);
}

TEST_F(TransferTest, NeverAsksForMoreThanLinuxMovesAtOnce) {
  const File file = Open(true, 0);
  // Addresses only: nothing touches the bytes.
  const MutableBytes huge(memory_.bytes().data(), uint64_t{9} << 30);
  IoRequest request = Write(file, 0, huge);
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  Next next = transfer.Start();
  uint64_t total = 0;
  while (next == Next::kCall) {
    ASSERT_LE(transfer.call().length_bytes, kKernelTransferBytesMax);
    ASSERT_EQ(transfer.call().offset, total);
    total += transfer.call().length_bytes;
    next = transfer.Answer(static_cast<int64_t>(transfer.call().length_bytes));
  }
  EXPECT_OK(request.status);
  EXPECT_EQ(total, uint64_t{9} << 30);
}

TEST_F(TransferTest, TakesAWriteOfNothingForAnError) {
  const File file = Open(false, 0);
  IoRequest request = Write(file, 0, memory_.bytes().first(4096));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  ASSERT_EQ(transfer.Answer(1024), Next::kCall);
  EXPECT_EQ(transfer.Answer(0), Next::kDone);
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kIoError, "1024 of 4096"));
  EXPECT_EQ(request.done_bytes, 1024u);
}

TEST_F(TransferTest, ReportsTheEndOfTheFileWithAllCounts) {
  const File file = Open(true, 4864);
  IoRequest request = Read(file, 0, memory_.bytes().first(8192));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  ASSERT_EQ(transfer.Answer(4864), Next::kCall);  // short, and perhaps only that
  EXPECT_EQ(transfer.call().offset, 4608u);
  EXPECT_EQ(transfer.Answer(256), Next::kDone);  // no: nothing more comes
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kNotFound, "4864 of the 8192"));
  EXPECT_EQ(request.done_bytes, 4864u);
}

TEST_F(TransferTest, DoesNotTakeAStuckReadForTheEndOfTheFile) {
  const File file = Open(false, 8192);
  IoRequest request = Read(file, 0, memory_.bytes().first(8192));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  Next next = transfer.Start();
  uint32_t calls = 0;
  for (; next != Next::kDone; ++calls) {
    next = next == Next::kCall ? transfer.Answer(calls == 0 ? 1000 : 0) : transfer.Start();
    ASSERT_LT(calls, 4 * kRetriesMax);
  }
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kIoError, "1000 of 8192"));
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kIoError, "the file has 8192"));
}

TEST_F(TransferTest, WaitsAndTriesAgainAfterEagainAndEintr) {
  const File file = Open(false, 8192);
  IoRequest request = Read(file, 0, memory_.bytes().first(8192));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  for (const int error : {EAGAIN, EINTR, EAGAIN}) {
    ASSERT_EQ(transfer.Answer(-error), Next::kWait);
    EXPECT_GT(transfer.not_before_ns(), request.submitted_ns);
    ASSERT_EQ(transfer.Start(), Next::kCall);
  }
  EXPECT_EQ(transfer.Answer(8192), Next::kDone);
  EXPECT_OK(request.status);
  EXPECT_EQ(request.attempts, 4u);
}

TEST_F(TransferTest, GivesUpOnEagainThatNeverEnds) {
  const File file = Open(false, 8192);
  IoRequest request = Read(file, 0, memory_.bytes().first(8192));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  Next next = transfer.Start();
  while (next != Next::kDone) {
    next = next == Next::kCall ? transfer.Answer(-EAGAIN) : transfer.Start();
    ASSERT_LE(request.attempts, kRetriesMax + 1);
  }
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kIoError, "EAGAIN"));
}

TEST_F(TransferTest, CountsRetriesOnlyInARow) {
  const File file = Open(false, 1 << 20);
  IoRequest request = Read(file, 0, memory_.bytes().first(4 * kRetriesMax));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  // EAGAIN before every byte: many in all, never two in a row.
  bool again = true;
  for (Next next = transfer.Start(); next != Next::kDone;) {
    if (next == Next::kWait) {
      next = transfer.Start();
      continue;
    }
    next = transfer.Answer(again ? -EAGAIN : 1);
    again = !again;
  }
  EXPECT_OK(request.status);
}

TEST_F(TransferTest, NamesTheFileThePlaceAndTheCauseOfAnError) {
  const File file = Open(false, 8192);
  IoRequest request = Write(file, 4096, memory_.bytes().first(4096));
  ASSERT_TRUE(Transfer::Admit(request));
  Transfer transfer(request, {});
  ASSERT_EQ(transfer.Start(), Next::kCall);
  EXPECT_EQ(transfer.Answer(-ENOSPC), Next::kDone);
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kOutOfSpace, "write " + file.path()));
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kOutOfSpace, "at 4096: No space left"));
}

TEST_F(TransferTest, RefusesWhatADirectFileWouldRefuseAndSaysWhich) {
  const File direct = Open(true, 8192);
  const MutableBytes bytes = memory_.bytes();
  const auto refusal = [](IoRequest request) {
    EXPECT_FALSE(Transfer::Admit(request));
    return request.status;
  };
  const auto invalid = StatusCode::kInvalidArgument;
  EXPECT_TRUE(FailsWith(refusal(Read(direct, 0, bytes.subspan(64, 512))), invalid, "address"));
  EXPECT_TRUE(FailsWith(refusal(Read(direct, 100, bytes.first(512))), invalid, "offset 100"));
  EXPECT_TRUE(FailsWith(refusal(Read(direct, 0, bytes.first(513))), invalid, "length 513"));
  IoRequest aligned = Read(direct, 512, bytes.subspan(512, 512));
  EXPECT_TRUE(Transfer::Admit(aligned));
  const File buffered = Open(false, 8192);
  IoRequest odd = Read(buffered, 1, bytes.subspan(1, 3));
  EXPECT_TRUE(Transfer::Admit(odd));
}

TEST_F(TransferTest, RefusesOffsetsBeyondTheLargest) {
  const File file = Open(false, 0);
  IoRequest request = Write(file, uint64_t{1} << 63, memory_.bytes().first(1));
  EXPECT_FALSE(Transfer::Admit(request));
  EXPECT_TRUE(FailsWith(request.status, StatusCode::kInvalidArgument));
  request.offset = (uint64_t{1} << 63) - 1;
  EXPECT_FALSE(Transfer::Admit(request));
  request.offset -= 1;
  EXPECT_TRUE(Transfer::Admit(request));
}

TEST(QueueOptions, RefuseWhatMakesNoQueue) {
  EXPECT_OK(CheckQueueOptions({}));
  EXPECT_TRUE(FailsWith(CheckQueueOptions({.iodepth = 0}), StatusCode::kInvalidArgument));
  for (const uint64_t bytes_max : {uint64_t{0}, uint64_t{4095}, uint64_t{1} << 31}) {
    EXPECT_TRUE(FailsWith(CheckQueueOptions({.transfer_bytes_max = bytes_max}),
                          StatusCode::kInvalidArgument, "transfer_bytes_max"));
  }
}

}  // namespace
}  // namespace kvbed
