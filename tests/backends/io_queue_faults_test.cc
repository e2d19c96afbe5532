// What a queue makes of a device that misbehaves, over each engine: below it, a FaultDevice plays.
#include <unistd.h>

#include <cstring>
#include <thread>

#include "backends/transfer.h"
#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

constexpr uint64_t kBytes = 65536;

class IoQueueFaults : public ::testing::TestWithParam<IoEngine> {
 protected:
  void SetUp() override { KVBED_NEEDS_ENGINE(GetParam()); }

  // A file with `kBytes` of the pattern, on a device that then plays `faults`.
  void Play(std::vector<Fault> faults, IoQueueOptions options = {}) {
    ASSERT_OK_AND_ASSIGN(const auto plain, OpenIo(GetParam()));
    ASSERT_OK_AND_ASSIGN(
        file_, plain->Open(folder_ / "f", {.write = true, .create = true, .direct = true}));
    ASSERT_OK_AND_ASSIGN(const auto writer, plain->OpenQueue({}));
    ASSERT_OK(MoveOne(*writer, Write(file_, 0, original_.bytes())).status);
    device_ = std::make_unique<FaultDevice>(FaultPlan{.seed = 3, .faults = std::move(faults)});
    ASSERT_OK_AND_ASSIGN(io_, OpenIo(GetParam()));
    io_ = MakeFaultyIo(std::move(io_), *device_);
    options.memory = memory_.bytes();
    ASSERT_OK_AND_ASSIGN(queue_, io_->OpenQueue(options));
  }

  IoRequest ReadAll() { return MoveOne(*queue_, Read(file_, 0, memory_.bytes())); }
  IoRequest WriteAll() {
    AlignedBuffer fresh = Pattern(kBytes, 2);
    std::memcpy(memory_.bytes().data(), fresh.bytes().data(), kBytes);
    return MoveOne(*queue_, Write(file_, 0, memory_.bytes()));
  }
  bool FileHolds(uint64_t seed) {
    const AlignedBuffer expected = Pattern(kBytes, seed);
    return Contents(file_.path()) == AsText(expected.bytes());
  }

  TempDir folder_;
  AlignedBuffer original_ = Pattern(kBytes, 1);
  AlignedBuffer memory_ = Blank(kBytes);
  std::unique_ptr<FaultDevice> device_;
  File file_;
  std::unique_ptr<Io> io_;
  std::unique_ptr<IoQueue> queue_;
};

TEST_P(IoQueueFaults, GoesOnAfterAShortReadOfHalf) {
  Play({{.kind = FaultKind::kShortTransfer, .target = FaultTarget::kRead}});
  const IoRequest read = ReadAll();
  ASSERT_OK(read.status);
  EXPECT_EQ(read.attempts, 2u);
  EXPECT_EQ(read.done_bytes, kBytes);
  EXPECT_TRUE(Equal(memory_.bytes(), original_.bytes()));
}

TEST_P(IoQueueFaults, GoesOnAfterAShortWriteOfHalf) {
  Play({{.kind = FaultKind::kShortTransfer, .target = FaultTarget::kWrite}});
  const IoRequest write = WriteAll();
  ASSERT_OK(write.status);
  EXPECT_EQ(write.attempts, 2u);
  EXPECT_TRUE(FileHolds(2));
}

TEST_P(IoQueueFaults, GoesOnAfterShortTransfersOfOddLengths) {
  for (const uint64_t amount : {uint64_t{4864}, uint64_t{12345}, kBytes - 1}) {
    Play({{.kind = FaultKind::kShortTransfer, .count = 5, .amount = amount}});
    ASSERT_OK(ReadAll().status) << amount;
    EXPECT_TRUE(Equal(memory_.bytes(), original_.bytes()));
    ASSERT_OK(WriteAll().status) << amount;
    EXPECT_TRUE(FileHolds(2));
    queue_.reset();
  }
}

// Behind the last whole alignment unit the end of a file is read twice. The second time may bring
// less, and leaves anything in the rest of the buffer.
TEST_P(IoQueueFaults, ReadsTheEndOfAFileAgainThatCameShortTheSecondTime) {
  constexpr uint64_t kOdd = 3984;
  Play({{.kind = FaultKind::kShortTransfer,
         .target = FaultTarget::kRead,
         .first = 1,
         .amount = 16}});
  ASSERT_EQ(::truncate(file_.path().c_str(), kOdd), 0);
  const IoRequest read = MoveOne(*queue_, Read(file_, 0, memory_.bytes().first(4096)));
  EXPECT_EQ(device_->struck(), 1u);
  EXPECT_EQ(read.status.code(), StatusCode::kNotFound) << read.status.ToString();
  EXPECT_EQ(read.done_bytes, kOdd);
  EXPECT_TRUE(Equal(memory_.bytes().first(kOdd), original_.bytes().first(kOdd)));
}

TEST_P(IoQueueFaults, FailsAReadThatStaysShortOfAFileThatIsLonger) {
  Play({{.kind = FaultKind::kShortTransfer, .count = kForever, .amount = 100}});
  const IoRequest read = ReadAll();
  EXPECT_TRUE(FailsWith(read.status, StatusCode::kIoError, "100 of 65536"));
  EXPECT_EQ(read.done_bytes, 100u);
  EXPECT_LE(read.attempts, kRetriesMax + 3);
}

TEST_P(IoQueueFaults, FailsAWriteThatStaysShort) {
  Play({{.kind = FaultKind::kShortTransfer, .count = kForever, .amount = 100}});
  const IoRequest write = WriteAll();
  EXPECT_TRUE(FailsWith(write.status, StatusCode::kIoError, "100 of 65536"));
  EXPECT_LE(write.attempts, kRetriesMax + 3);
}

TEST_P(IoQueueFaults, TriesAgainAfterThreeTimesEagainAndAfterEintr) {
  Play({{.kind = FaultKind::kEagain, .target = FaultTarget::kRead, .count = 3},
        {.kind = FaultKind::kEintr, .target = FaultTarget::kWrite, .count = 3},
        {.kind = FaultKind::kEintr, .target = FaultTarget::kSync, .count = 2}});
  const IoRequest read = ReadAll();
  ASSERT_OK(read.status);
  EXPECT_EQ(read.attempts, 4u);
  EXPECT_TRUE(Equal(memory_.bytes(), original_.bytes()));
  ASSERT_OK(WriteAll().status);
  EXPECT_TRUE(FileHolds(2));
  EXPECT_OK(MoveOne(*queue_, Datasync(file_)).status);
  EXPECT_EQ(device_->struck(), 8u);
}

TEST_P(IoQueueFaults, GivesUpOnEagainForever) {
  Play({{.kind = FaultKind::kEagain, .target = FaultTarget::kWrite, .count = kForever}});
  const IoRequest write = WriteAll();
  EXPECT_TRUE(FailsWith(write.status, StatusCode::kIoError, "EAGAIN"));
  EXPECT_EQ(write.attempts, kRetriesMax + 1);
  EXPECT_TRUE(FileHolds(1));
  // The queue itself is as good as before.
  EXPECT_OK(ReadAll().status);
}

TEST_P(IoQueueFaults, OthersOvertakeARequestThatTriesAgain) {
  Play({{.kind = FaultKind::kEagain, .target = FaultTarget::kRead, .count = 3}});
  std::vector<IoRequest> reads;
  for (uint64_t at = 0; at < kBytes; at += 4096) {
    reads.push_back(Read(file_, at, memory_.bytes().subspan(at, 4096)));
  }
  ASSERT_OK(MoveAll(*queue_, reads));
  for (const IoRequest& read : reads) EXPECT_OK(read.status);
  EXPECT_TRUE(Equal(memory_.bytes(), original_.bytes()));
}

TEST_P(IoQueueFaults, PassesOnErrorsWithTheirKind) {
  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kRead},
        {.kind = FaultKind::kEnospc, .target = FaultTarget::kWrite},
        {.kind = FaultKind::kFailedSync}});
  EXPECT_TRUE(FailsWith(ReadAll().status, StatusCode::kIoError, "read " + file_.path()));
  EXPECT_TRUE(FailsWith(WriteAll().status, StatusCode::kOutOfSpace, "write " + file_.path()));
  const IoRequest sync = MoveOne(*queue_, Datasync(file_));
  EXPECT_TRUE(FailsWith(sync.status, StatusCode::kIoError, "fdatasync " + file_.path()));
  EXPECT_EQ(sync.attempts, 1u);  // never again of itself
  EXPECT_OK(ReadAll().status);
}

TEST_P(IoQueueFaults, FailsOnlyTheRequestThatIsStruck) {
  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kRead, .first = 5}}, {.iodepth = 2});
  std::vector<IoRequest> reads;
  for (uint64_t at = 0; at < kBytes; at += 4096) {
    reads.push_back(Read(file_, at, memory_.bytes().subspan(at, 4096)));
  }
  ASSERT_OK(MoveAll(*queue_, reads));
  for (size_t i = 0; i < reads.size(); ++i) EXPECT_EQ(reads[i].status.ok(), i != 5) << i;
}

TEST_P(IoQueueFaults, DestroyingItWithDelayedWritesLeavesNoneBehind) {
  Play({{.kind = FaultKind::kDelay, .target = FaultTarget::kWrite, .count = 8, .amount = 20'000}});
  std::vector<IoRequest> writes;
  auto memory = std::make_unique<AlignedBuffer>(Pattern(kBytes, 2));
  for (uint64_t i = 0; i < 8; ++i) {
    writes.push_back(Write(file_, i * 8192, memory->bytes().subspan(i * 8192, 8192)));
  }
  queue_->Submit(Pointers(writes));
  queue_.reset();
  memory.reset();  // a write still under way would be seen by the address sanitizer or below
  const int old_fd = file_.fd();
  file_ = File();
  ASSERT_OK_AND_ASSIGN(const auto plain, OpenIo(GetParam()));
  ASSERT_OK_AND_ASSIGN(const File other,
                       plain->Open(folder_ / "g", {.write = true, .create = true}));
  EXPECT_EQ(other.fd(), old_fd);  // the number is taken by another file, which stays empty
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(Contents(folder_ / "g"), "");
  for (const IoRequest& write : writes) EXPECT_FALSE(write.status.ok());
}

TEST_P(IoQueueFaults, ADelayedWriteTakesTheBytesThatAreThereLater) {
  // The control for stores that must pin what they write: the device reads memory late.
  Play({{.kind = FaultKind::kDelay, .target = FaultTarget::kWrite, .amount = 5'000}});
  IoRequest write = Write(file_, 0, memory_.bytes());
  IoRequest* const requests[] = {&write};
  queue_->Submit(requests);
  std::memset(memory_.bytes().data(), 0x77, kBytes);
  std::vector<IoRequest*> completed;
  ASSERT_OK(queue_->Reap(1, completed));
  EXPECT_OK(write.status);
  EXPECT_EQ(Contents(file_.path()), std::string(kBytes, '\x77'));
}

TEST_P(IoQueueFaults, ReportsThatTheDeviceIsGone) {
  Play({});
  device_->CrashAfter(1);
  EXPECT_OK(ReadAll().status);
  EXPECT_TRUE(FailsWith(ReadAll().status, StatusCode::kIoError, "No such device"));
}

INSTANTIATE_TEST_SUITE_P(Engines, IoQueueFaults,
                         ::testing::Values(IoEngine::kIoUring, IoEngine::kPsync),
                         [](const auto& engine) {
                           return std::string(IoEngineName(engine.param));
                         });

}  // namespace
}  // namespace kvbed
