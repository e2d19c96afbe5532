// Queues that are lent: memory goes to one borrower at a time, and never to another one while the
// device may still touch it.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "backends/queue_pool.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

enum class Answers { kAll, kNothing, kBreaks };

// A queue that completes what was submitted, nothing, or breaks as io_uring does when it can't be
// entered.
class FakeQueue final : public IoQueue {
 public:
  FakeQueue(const Answers& answers, int& closed) : answers_(answers), closed_(closed) {}
  ~FakeQueue() override { ++closed_; }

  Status AttachFile(const File&) override { return Status::Ok(); }
  void Submit(std::span<IoRequest* const> requests) override {
    waiting_.insert(waiting_.end(), requests.begin(), requests.end());
  }
  Status Reap(size_t, std::vector<IoRequest*>& completed) override {
    if (answers_ == Answers::kNothing) return Status::Ok();
    const Status status =
        answers_ == Answers::kBreaks ? Status::IoError("the ring is gone") : Status::Ok();
    for (IoRequest* request : std::exchange(waiting_, {})) {
      request->status = status;
      completed.push_back(request);
    }
    return status;
  }
  size_t outstanding() const override { return waiting_.size(); }
  IoQueueInfo info() const override { return {}; }

 private:
  const Answers& answers_;
  int& closed_;
  std::vector<IoRequest*> waiting_;
};

// Of its verbs a pool of queues needs one.
class FakeIo final : public Io {
 public:
  Result<File> Open(const std::string&, const OpenOptions&) override { return No(); }
  Result<uint64_t> FileSize(const File&) override { return No(); }
  Status Preallocate(const File&, uint64_t) override { return No(); }
  Status Truncate(const File&, uint64_t) override { return No(); }
  Status SyncFile(const File&) override { return No(); }
  Status Rename(const std::string&, const std::string&, RenameMode) override { return No(); }
  Status Unlink(const std::string&) override { return No(); }
  Status MakeDirectories(const std::string&) override { return No(); }
  Status RemoveDirectory(const std::string&) override { return No(); }
  Status SyncDirectory(const std::string&) override { return No(); }
  Result<std::vector<DirectoryEntry>> List(const std::string&) override { return No(); }
  Result<std::unique_ptr<IoQueue>> OpenQueue(const IoQueueOptions&) override {
    ++opened;
    return std::unique_ptr<IoQueue>(std::make_unique<FakeQueue>(answers, closed));
  }

  Answers answers = Answers::kAll;
  int opened = 0;
  int closed = 0;

 private:
  static Status No() { return Status::NotSupported("no part of this test"); }
};

class QueuePoolTest : public testing::Test {
 protected:
  // Borrows, submits a read into the loan's memory and reaps once. What the reap said.
  Status BorrowAndRead() {
    auto loan = pool_.Borrow();
    if (!loan.ok()) return loan.status();
    memory_.push_back(loan->memory().data());
    IoRequest request{.op = IoOp::kRead, .buffer = loan->memory()};
    IoRequest* const submitted = &request;
    loan->Submit({&submitted, 1});
    std::vector<IoRequest*> completed;
    return loan->Reap(1, completed);
  }

  FakeIo io_;
  QueuePool pool_{io_, {.iodepth = 4, .memory_bytes = 8192}};
  std::vector<std::byte*> memory_;  // of each loan, in order
};

TEST_F(QueuePoolTest, LendsAQueueAgainWhenNothingIsOutstanding) {
  for (int i = 0; i < 3; ++i) EXPECT_OK(BorrowAndRead());
  EXPECT_EQ(io_.opened, 1);
  EXPECT_EQ(std::set(memory_.begin(), memory_.end()).size(), 1u);
}

TEST_F(QueuePoolTest, LendsNoMemoryToTwoAtOnce) {
  auto first = pool_.Borrow(), second = pool_.Borrow();
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_NE(first->memory().data(), second->memory().data());
  EXPECT_EQ(io_.opened, 2);
}

// The borrower need not say so.
TEST_F(QueuePoolTest, AQueueWhoseSubmitFailedIsClosedAndItsMemoryNeverLentAgain) {
  io_.answers = Answers::kBreaks;
  EXPECT_FALSE(BorrowAndRead().ok());
  EXPECT_EQ(io_.closed, 1);
  io_.answers = Answers::kAll;
  auto first = pool_.Borrow(), second = pool_.Borrow();
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(io_.opened, 3) << "the broken queue was lent again";
  EXPECT_NE(first->memory().data(), second->memory().data());
}

TEST_F(QueuePoolTest, AQueueThatComesBackWithReadsUnderWayIsClosed) {
  io_.answers = Answers::kNothing;
  EXPECT_OK(BorrowAndRead());
  EXPECT_EQ(io_.closed, 1);
  io_.answers = Answers::kAll;
  EXPECT_OK(BorrowAndRead());
  EXPECT_EQ(io_.opened, 2);
}

TEST_F(QueuePoolTest, AQueueThatItsBorrowerCallsBrokenIsClosed) {
  {
    auto loan = pool_.Borrow();
    ASSERT_OK(loan);
    loan->MarkBroken();
  }
  EXPECT_EQ(io_.closed, 1);
}

}  // namespace
}  // namespace kvbed
