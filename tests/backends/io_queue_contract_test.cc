// What every I/O queue promises, over each engine. A new engine adds a line to kEngines.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

enum class Setting { kRegistered, kUnregistered, kPlainRing, kPsync, kFaultless };

struct EngineCase {
  const char* name;
  Setting setting;
};

constexpr EngineCase kEngines[] = {
    {"io_uring", Setting::kRegistered},
    {"io_uring_unregistered", Setting::kUnregistered},
    {"io_uring_plain", Setting::kPlainRing},
    {"psync", Setting::kPsync},
    {"faulty_without_faults", Setting::kFaultless},
};

class IoQueueContract : public ::testing::TestWithParam<EngineCase> {
 protected:
  static constexpr uint64_t kMemoryBytes = uint64_t{2} << 20;

  void SetUp() override {
    const Setting setting = GetParam().setting;
    const IoEngine engine = setting == Setting::kPsync ? IoEngine::kPsync : IoEngine::kIoUring;
    KVBED_NEEDS_ENGINE(engine);
    ASSERT_OK_AND_ASSIGN(io_, OpenIo(engine));
    if (setting == Setting::kFaultless) io_ = MakeFaultyIo(std::move(io_), device_);
  }

  std::unique_ptr<IoQueue> Queue(IoQueueOptions options = {}) {
    const Setting setting = GetParam().setting;
    if (setting != Setting::kUnregistered) options.memory = memory_.bytes();
    if (setting == Setting::kPlainRing) return OpenUringQueue(options, RingFlags::kNone).value();
    return io_->OpenQueue(options).value();
  }

  void Attach(IoQueue& queue, const File& file) {
    if (GetParam().setting == Setting::kUnregistered) return;
    EXPECT_OK(queue.AttachFile(file));
  }

  File NewFile(std::string_view name, bool direct = true) {
    return io_->Open(folder_ / name, {.write = true, .create = true, .direct = direct}).value();
  }

  MutableBytes Memory(uint64_t offset, uint64_t length) {
    return memory_.bytes().subspan(offset, length);
  }

  TempDir folder_;
  AlignedBuffer memory_ = Pattern(kMemoryBytes, 1);
  AlignedBuffer original_ = Pattern(kMemoryBytes, 1);
  FaultDevice device_;
  std::unique_ptr<Io> io_;
};

TEST_P(IoQueueContract, ReadsBackWhatItWrote) {
  const File file = NewFile("f");
  const auto queue = Queue();
  Attach(*queue, file);
  std::vector<IoRequest> writes;
  for (uint64_t at = 0; at < kMemoryBytes; at += 65536) {
    writes.push_back(Write(file, at, Memory(at, 65536)));
  }
  ASSERT_OK(MoveAll(*queue, writes));
  for (const IoRequest& write : writes) {
    ASSERT_OK(write.status);
    EXPECT_EQ(write.done_bytes, 65536u);
    EXPECT_LE(write.submitted_ns, write.completed_ns);
    EXPECT_GT(write.submitted_ns, 0u);
  }
  EXPECT_OK(MoveOne(*queue, Datasync(file)).status);
  std::fill(memory_.bytes().begin(), memory_.bytes().end(), std::byte{0xEE});
  std::vector<IoRequest> reads;
  for (uint64_t at = 0; at < kMemoryBytes; at += 65536) {
    reads.push_back(Read(file, at, Memory(at, 65536)));
  }
  ASSERT_OK(MoveAll(*queue, reads));
  for (const IoRequest& read : reads) EXPECT_OK(read.status);
  EXPECT_TRUE(Equal(memory_.bytes(), original_.bytes()));
}

TEST_P(IoQueueContract, MovesMemoryThatIsNotRegisteredAndFilesThatAreNotAttached) {
  const File file = NewFile("f");
  const auto queue = Queue();
  AlignedBuffer out = Pattern(8192, 5);
  AlignedBuffer in = Blank(8192);
  EXPECT_OK(MoveOne(*queue, Write(file, 4096, out.bytes())).status);
  EXPECT_OK(MoveOne(*queue, Read(file, 4096, in.bytes())).status);
  EXPECT_TRUE(Equal(in.bytes(), out.bytes()));
}

TEST_P(IoQueueContract, MovesOddPlacesAndLengthsOfBufferedFiles) {
  const File file = NewFile("f", false);
  EXPECT_FALSE(file.direct());
  const auto queue = Queue();
  Attach(*queue, file);
  EXPECT_OK(MoveOne(*queue, Write(file, 3, Memory(17, 4999))).status);
  EXPECT_OK(MoveOne(*queue, Read(file, 3, Memory(70001, 4999))).status);
  EXPECT_TRUE(Equal(Memory(70001, 4999), Bytes(original_.bytes()).subspan(17, 4999)));
}

TEST_P(IoQueueContract, RefusesMisalignedDirectRequestsAndSaysWhich) {
  const File file = NewFile("f");
  ASSERT_TRUE(file.direct());
  ASSERT_GT(file.alignment_bytes(), 1u);
  const auto queue = Queue();
  EXPECT_OK(MoveOne(*queue, Write(file, 0, Memory(0, 8192))).status);
  const auto invalid = StatusCode::kInvalidArgument;
  EXPECT_TRUE(
      FailsWith(MoveOne(*queue, Read(file, 0, Memory(1, 4096))).status, invalid, "address"));
  EXPECT_TRUE(FailsWith(MoveOne(*queue, Read(file, 1, Memory(0, 4096))).status, invalid, "offset"));
  EXPECT_TRUE(
      FailsWith(MoveOne(*queue, Write(file, 0, Memory(0, 4097))).status, invalid, "length"));
  EXPECT_TRUE(Equal(Memory(0, 8192), Bytes(original_.bytes()).first(8192)));
}

TEST_P(IoQueueContract, CompletesEachRequestExactlyOnceHoweverManyThereAre) {
  const File file = NewFile("f");
  const auto queue = Queue({.iodepth = 4});
  Attach(*queue, file);
  std::vector<IoRequest> requests;
  for (uint64_t i = 0; i < 256; ++i) {
    requests.push_back(Write(file, i * 4096, Memory(i * 4096, 4096)));
    requests.back().owner = &memory_;
  }
  queue->Submit(Pointers(requests));
  EXPECT_EQ(queue->outstanding(), 256u);
  std::vector<IoRequest*> completed;
  while (queue->outstanding() > 0) {
    const size_t before = completed.size();
    ASSERT_OK(queue->Reap(1, completed));
    ASSERT_GT(completed.size(), before);
    EXPECT_EQ(queue->outstanding(), 256 - completed.size());
  }
  EXPECT_EQ(std::set<IoRequest*>(completed.begin(), completed.end()).size(), 256u);
  for (const IoRequest& request : requests) {
    EXPECT_OK(request.status);
    EXPECT_EQ(request.owner, &memory_);
  }
  EXPECT_LE(queue->info().iodepth_achieved, 4u);
  EXPECT_GE(queue->info().iodepth_achieved, 1u);
  EXPECT_EQ(queue->info().iodepth_requested, 4u);
  EXPECT_TRUE(Contents(folder_ / "f") == AsText(Bytes(original_.bytes()).first(256 * 4096)));
}

TEST_P(IoQueueContract, ReapWithNothingOutstandingReturnsAtOnce) {
  const auto queue = Queue();
  std::vector<IoRequest*> completed;
  EXPECT_OK(queue->Reap(5, completed));
  EXPECT_TRUE(completed.empty());
}

TEST_P(IoQueueContract, ReapForNothingStillGetsEverythingDoneInTheEnd) {
  const File file = NewFile("f");
  const auto queue = Queue();
  std::vector<IoRequest> requests{Write(file, 0, Memory(0, 4096)),
                                  Write(file, 4096, Memory(4096, 4096))};
  queue->Submit(Pointers(requests));
  std::vector<IoRequest*> completed;
  while (queue->outstanding() > 0) {
    ASSERT_OK(queue->Reap(0, completed));
    std::this_thread::yield();
  }
  EXPECT_EQ(completed.size(), 2u);
}

TEST_P(IoQueueContract, ReapAppendsAndLeavesWhatIsThere) {
  const File file = NewFile("f");
  const auto queue = Queue();
  IoRequest other;
  std::vector<IoRequest*> completed{&other};
  IoRequest write = Write(file, 0, Memory(0, 4096));
  IoRequest* const requests[] = {&write};
  queue->Submit(requests);
  ASSERT_OK(queue->Reap(1, completed));
  EXPECT_EQ(completed, (std::vector<IoRequest*>{&other, &write}));
}

TEST_P(IoQueueContract, HandsBackRequestsThatFailAtOnceAmongOthers) {
  const File file = NewFile("f");
  const File closed;
  const auto queue = Queue();
  std::vector<IoRequest> requests{Write(file, 0, Memory(0, 4096)), Read(file, 1, Memory(0, 4096)),
                                  Read(closed, 0, Memory(0, 4096)), Read(file, 0, Memory(0, 0)),
                                  Datasync(closed)};
  ASSERT_OK(MoveAll(*queue, requests));
  EXPECT_OK(requests[0].status);
  EXPECT_TRUE(FailsWith(requests[1].status, StatusCode::kInvalidArgument, "offset"));
  EXPECT_TRUE(FailsWith(requests[2].status, StatusCode::kInvalidArgument));
  EXPECT_OK(requests[3].status);  // nothing asked for, nothing to do
  EXPECT_TRUE(FailsWith(requests[4].status, StatusCode::kInvalidArgument));
}

TEST_P(IoQueueContract, CanBeUsedAgainForARequestThatCameBack) {
  const File file = NewFile("f");
  const auto queue = Queue();
  IoRequest request = Read(file, 1, Memory(0, 4096));
  EXPECT_FALSE(MoveAlone(*queue, request).ok());
  request.op = IoOp::kWrite;
  request.offset = 0;
  EXPECT_OK(MoveAlone(*queue, request));
  EXPECT_EQ(request.done_bytes, 4096u);
  EXPECT_EQ(request.attempts, 1u);
}

// 4864 = 4096 + 768: the file ends inside a block and inside a page.
TEST_P(IoQueueContract, ReadOverTheEndIsNotFoundWithBothCounts) {
  const File file = NewFile("f");
  const auto queue = Queue();
  ASSERT_OK(MoveOne(*queue, Write(file, 0, Memory(0, 8192))).status);
  ASSERT_OK(io_->Truncate(file, 4864));
  std::memset(memory_.bytes().data(), 0xEE, 8192);
  const IoRequest over = MoveOne(*queue, Read(file, 0, Memory(0, 8192)));
  EXPECT_TRUE(FailsWith(over.status, StatusCode::kNotFound, "4864 of the 8192"));
  EXPECT_EQ(over.done_bytes, 4864u);
  EXPECT_TRUE(Equal(Memory(0, 4864), Bytes(original_.bytes()).first(4864)));
  const IoRequest behind = MoveOne(*queue, Read(file, 16384, Memory(0, 4096)));
  EXPECT_TRUE(FailsWith(behind.status, StatusCode::kNotFound, "0 of the 4096"));
  EXPECT_EQ(behind.done_bytes, 0u);
  ASSERT_OK(io_->Truncate(file, 4096));
  EXPECT_OK(MoveOne(*queue, Read(file, 0, Memory(0, 4096))).status);
  ASSERT_OK(io_->Truncate(file, 4095));
  const IoRequest one_short = MoveOne(*queue, Read(file, 0, Memory(0, 4096)));
  EXPECT_TRUE(FailsWith(one_short.status, StatusCode::kNotFound, "4095 of the 4096"));
}

TEST_P(IoQueueContract, SplitsLongTransfers) {
  const File file = NewFile("f");
  const auto queue = Queue({.iodepth = 2, .transfer_bytes_max = 65536});
  Attach(*queue, file);
  const uint64_t length = 15 * 65536 + 4096;
  const IoRequest write = MoveOne(*queue, Write(file, 8192, Memory(0, length)));
  ASSERT_OK(write.status);
  EXPECT_EQ(write.done_bytes, length);
  EXPECT_EQ(write.attempts, 16u);
  std::fill(memory_.bytes().begin(), memory_.bytes().end(), std::byte{0xEE});
  const IoRequest read = MoveOne(*queue, Read(file, 8192, Memory(0, length)));
  ASSERT_OK(read.status);
  EXPECT_EQ(read.attempts, 16u);
  EXPECT_TRUE(Equal(Memory(0, length), Bytes(original_.bytes()).first(length)));
}

TEST_P(IoQueueContract, FailsAWriteToAFileOpenedForReading) {
  NewFile("f");
  const File file = io_->Open(folder_ / "f", {}).value();
  const auto queue = Queue();
  const IoRequest write = MoveOne(*queue, Write(file, 0, Memory(0, 4096)));
  // The faulty one can't look under such a write; it fails either way.
  EXPECT_EQ(write.status.code(), StatusCode::kIoError) << write.status.ToString();
}

TEST_P(IoQueueContract, SaysWhatIsInEffect) {
  const File file = NewFile("f");
  const auto queue = Queue();
  Attach(*queue, file);
  const IoQueueInfo info = queue->info();
  const Setting setting = GetParam().setting;
  const bool registered = setting != Setting::kPsync && setting != Setting::kUnregistered;
  EXPECT_EQ(info.engine, setting == Setting::kPsync ? IoEngine::kPsync : IoEngine::kIoUring);
  EXPECT_EQ(info.registered_files, registered) << info.registered_files_reason;
  EXPECT_EQ(info.registered_files_reason.empty(), registered);
  EXPECT_EQ(info.registered_buffers, registered) << info.registered_buffers_reason;
  EXPECT_EQ(info.registered_buffers_reason.empty(), registered);
  if (setting == Setting::kPsync || setting == Setting::kPlainRing) {
    EXPECT_TRUE(info.ring_flags.empty());
  }
}

TEST_P(IoQueueContract, AttachingAClosedFileIsRefused) {
  const File closed;
  EXPECT_TRUE(FailsWith(Queue()->AttachFile(closed), StatusCode::kInvalidArgument));
}

TEST_P(IoQueueContract, MovesMoreFilesThanCanBeAttached) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 400) KVBED_SKIP_OR_FAIL("needs 400 open files");
  const auto queue = Queue({.iodepth = 64});
  std::vector<File> files;
  files.reserve(300);
  std::vector<IoRequest> writes;
  for (size_t i = 0; i < 300; ++i) {
    files.push_back(NewFile("f" + std::to_string(i), false));
    Attach(*queue, files.back());
    writes.push_back(Write(files.back(), 0, Memory(i, 1)));
  }
  ASSERT_OK(MoveAll(*queue, writes));
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(Contents(files[i].path()), AsText(Bytes(original_.bytes()).subspan(i, 1)));
  }
}

TEST_P(IoQueueContract, DestroyingItWaitsForWhatIsInFlight) {
  const File file = NewFile("f");
  std::vector<IoRequest> writes;
  {
    const auto queue = Queue({.iodepth = 4});
    Attach(*queue, file);
    for (uint64_t i = 0; i < 16; ++i) {
      writes.push_back(Write(file, i * 65536, Memory(i * 65536, 65536)));
    }
    queue->Submit(Pointers(writes));
  }
  // Nothing moves any more: what was begun is whole, what was not says so.
  const uint64_t size = io_->FileSize(file).value();
  std::memset(memory_.bytes().data(), 0xEE, memory_.bytes().size());
  const std::string contents = Contents(file.path());
  EXPECT_EQ(contents.size(), size);
  for (const IoRequest& write : writes) {
    if (write.done_bytes == 65536) {
      EXPECT_TRUE(contents.compare(write.offset, 65536,
                                   AsText(Bytes(original_.bytes()).subspan(write.offset, 65536))) ==
                  0);
    } else {
      EXPECT_TRUE(FailsWith(write.status, StatusCode::kIoError, "closed"));
    }
  }
}

TEST_P(IoQueueContract, QueuesOfSeveralThreadsShareFilesAndMemory) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kPart = kMemoryBytes / kThreads;
  const File file = NewFile("f");
  ASSERT_OK(io_->Preallocate(file, kMemoryBytes));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto queue = Queue({.iodepth = 8});
      Attach(*queue, file);
      std::vector<IoRequest> requests;
      for (uint64_t at = t * kPart; at < (t + 1) * kPart; at += 16384) {
        requests.push_back(Write(file, at, Memory(at, 16384)));
      }
      EXPECT_OK(MoveAll(*queue, requests));
      EXPECT_OK(MoveOne(*queue, Datasync(file)).status);
      for (IoRequest& request : requests) {
        EXPECT_OK(request.status);
        std::memset(request.buffer.data(), 0, request.buffer.size());
        request.op = IoOp::kRead;
      }
      EXPECT_OK(MoveAll(*queue, requests));
      for (const IoRequest& request : requests) EXPECT_OK(request.status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Equal(memory_.bytes(), original_.bytes()));
}

TEST_P(IoQueueContract, MayBeDestroyedByAnotherThreadWhenNothingIsOutstanding) {
  const File file = NewFile("f");
  auto queue = Queue();
  EXPECT_OK(MoveOne(*queue, Write(file, 0, Memory(0, 4096))).status);
  std::thread([&queue] { queue.reset(); }).join();
}

using IoQueueContractDeathTest = IoQueueContract;

TEST_P(IoQueueContractDeathTest, BelongsToOneThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto queue = Queue();
        std::thread([&queue] { queue->Submit({}); }).join();
      },
      "check failed");
}

TEST_P(IoQueueContract, RefusesOptionsThatMakeNoQueue) {
  EXPECT_TRUE(FailsWith(io_->OpenQueue({.iodepth = 0}).status(), StatusCode::kInvalidArgument));
}

INSTANTIATE_TEST_SUITE_P(Engines, IoQueueContract, ::testing::ValuesIn(kEngines),
                         [](const auto& engine) { return std::string(engine.param.name); });
INSTANTIATE_TEST_SUITE_P(Engines, IoQueueContractDeathTest, ::testing::ValuesIn(kEngines),
                         [](const auto& engine) { return std::string(engine.param.name); });

}  // namespace
}  // namespace kvbed
