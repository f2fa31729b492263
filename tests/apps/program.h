// Runs the scoria program as a user does and keeps what it said.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace scoria::test {

struct Outcome {
    int code = -1;  // exit code; 128 + signal if a signal ended it
    std::string out, err;
};

struct Launch {
    std::map<std::string, std::string> environment{};  // on top of ours
    std::string input{};                               // stdin
    std::string output{};  // a path that stdout goes to, instead of Outcome::out; "-": there is no stdout
    bool closed_output = false;      // nobody reads stdout
    int interrupt_after_bytes = -1;  // SIGINT once stdout has shown this many bytes
};

/// Ends the program after two minutes, with code 137.
Outcome run_scoria(const std::vector<std::string>& arguments, const Launch& launch = {});

/// The program beside the test: interrupted and waited for at its end.
class Background {
  public:
    /// Returns once its stderr has shown `sign`. Throws, if it ends before.
    Background(const std::vector<std::string>& arguments, const std::string& sign,
               const std::map<std::string, std::string>& environment = {});
    ~Background();
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;
    /// SIGINT; its exit code, 137 if it took more than ten seconds.
    int interrupt();
    const std::string& err() const { return err_; }  // all of it, once it has ended

  private:
    int child_ = 0, descriptor_ = -1;
    std::string err_;
};

/// A fresh folder, removed with everything in it.
class ScratchFolder {
  public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    std::string path(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace scoria::test
