// A /proc, /sys and /dev made up for a test, in a temporary folder.
// It doesn't know what reads them.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tools/block_device.h"

namespace kvbed {

class FakeSystem {
 public:
  SystemRoots roots() const {
    return {.proc = dir_ / "proc", .sys = dir_ / "sys", .dev = dir_ / "dev"};
  }
  const TempDir& dir() const { return dir_; }
  // The folder in sysfs of a disk, or of what lies on others.
  std::string Disk(const std::string& name) const {
    return dir_ / ("sys/devices/pci/block/" + name);
  }
  std::string Virtual(const std::string& name) const {
    return dir_ / ("sys/devices/virtual/block/" + name);
  }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  // The kernel's names for it are links.
  void Link(const std::string& at, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(at).parent_path());
    std::filesystem::create_directories(target);
    std::filesystem::create_directory_symlink(target, at);
  }
  // A disk of this name that /dev names too, with so many sectors read and written.
  void AddDisk(const std::string& name, int read = 0, int written = 0) const {
    AddBlock(name, Disk(name));
    Write(Disk(name) + "/stat",
          "1 0 " + std::to_string(read) + " 0 1 0 " + std::to_string(written) + " 0 0 0 0\n");
  }
  // What `folder` describes is the block device `name`.
  void AddBlock(const std::string& name, const std::string& folder) const {
    Link(roots().sys + "/class/block/" + name, folder);
  }
  // The block device that the test's folder really is on is said to be this one.
  void PutOn(const std::string& folder) const {
    struct stat status {};
    ::stat(dir_.path().c_str(), &status);
    Link(roots().sys + "/dev/block/" + std::to_string(major(status.st_dev)) + ":" +
             std::to_string(minor(status.st_dev)),
         folder);
  }
  // Lines of mountinfo after the mount point: "rw - ext4 /dev/sda1 rw".
  void Mount(const std::string& rest) const { MountAt(dir_.path(), rest); }
  void MountAt(const std::string& point, const std::string& rest) const {
    const std::string file = roots().proc + "/self/mountinfo";
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::app) << "30 27 0:44 / " << point << " " << rest << "\n";
  }

 private:
  TempDir dir_;
};

}  // namespace kvbed
