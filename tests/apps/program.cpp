// posix_spawn with pipes; both outputs are read together, so that neither blocks the program.
#include "program.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char** environ;

namespace scoria::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto time_limit = std::chrono::minutes(2);

void require(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(what);
}

std::vector<std::string> merged_environment(std::map<std::string, std::string> extra) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const size_t equals = text.find('=');
        extra.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    std::vector<std::string> merged;
    for (const auto& [name, value] : extra) merged.push_back(name + "=" + value);
    return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (std::string& text : strings) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

/// The words that start it: those of the variable SCORIA_PROGRAM ("/usr/bin/wine64 /.../scoria.exe"), or what
/// was built beside this.
std::vector<std::string> program() {
    const char* const given = std::getenv("SCORIA_PROGRAM");
    if (!given || !*given) return {SCORIA_PROGRAM};
    std::istringstream words(given);
    return {std::istream_iterator<std::string>(words), {}};
}

struct Pipes {
    std::array<int, 2> out{}, err{};
};

pid_t spawn(const std::vector<std::string>& arguments, const Launch& launch, const std::string& input,
            const Pipes& pipes) {
    std::vector<std::string> words = program();
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment = merged_environment(launch.environment);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, input.c_str(), O_RDONLY, 0);
    if (launch.output == "-")
        posix_spawn_file_actions_addclose(&actions, 1);
    else if (launch.output.empty())
        posix_spawn_file_actions_adddup2(&actions, pipes.out[1], 1);
    else
        posix_spawn_file_actions_addopen(&actions, 1, launch.output.c_str(), O_WRONLY | O_CREAT, 0666);
    posix_spawn_file_actions_adddup2(&actions, pipes.err[1], 2);
    pid_t child = 0;
    const int error = posix_spawn(&child, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                                  pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    require(error == 0, "the program does not start");
    return child;
}

/// Appends what `descriptor` has; false at its end.
bool drain(int descriptor, std::string& text) {
    std::array<char, 65536> buffer;
    const ssize_t length = read(descriptor, buffer.data(), buffer.size());
    if (length > 0) text.append(buffer.data(), size_t(length));
    return length > 0;
}

void collect(pid_t child, const Launch& launch, std::array<pollfd, 2>& ends, Outcome& outcome) {
    const auto deadline = Clock::now() + time_limit;
    bool interrupted = launch.interrupt_after_bytes < 0;
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
        if (Clock::now() > deadline) kill(child, SIGKILL);
        if (poll(ends.data(), ends.size(), 1000) <= 0) continue;
        for (size_t i = 0; i < ends.size(); ++i)
            if (ends[i].fd >= 0 && ends[i].revents != 0 &&
                !drain(ends[i].fd, i == 0 ? outcome.out : outcome.err)) {
                close(ends[i].fd);
                ends[i].fd = -1;
            }
        if (!interrupted && int(outcome.out.size()) >= launch.interrupt_after_bytes) {
            kill(child, SIGINT);
            interrupted = true;
        }
    }
}

}  // namespace

Outcome run_scoria(const std::vector<std::string>& arguments, const Launch& launch) {
    const ScratchFolder scratch;
    const std::string input = scratch.path("stdin");
    std::FILE* file = std::fopen(input.c_str(), "wb");
    require(file != nullptr &&
                std::fwrite(launch.input.data(), 1, launch.input.size(), file) == launch.input.size(),
            "no stdin");
    std::fclose(file);

    Pipes pipes;
    require(pipe2(pipes.out.data(), O_CLOEXEC) == 0 && pipe2(pipes.err.data(), O_CLOEXEC) == 0, "no pipes");
    if (launch.closed_output) close(pipes.out[0]);
    const pid_t child = spawn(arguments, launch, input, pipes);
    close(pipes.out[1]);
    close(pipes.err[1]);

    Outcome outcome;
    std::array<pollfd, 2> ends = {pollfd{launch.closed_output ? -1 : pipes.out[0], POLLIN, 0},
                                  pollfd{pipes.err[0], POLLIN, 0}};
    collect(child, launch, ends, outcome);
    int status = 0;
    require(waitpid(child, &status, 0) == child, "the program was not waited for");
    outcome.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return outcome;
}

Background::Background(const std::vector<std::string>& arguments, const std::string& sign,
                       const std::map<std::string, std::string>& environment) {
    Pipes pipes;
    require(pipe2(pipes.err.data(), O_CLOEXEC) == 0, "no pipe");
    child_ = spawn(arguments, {.environment = environment, .output = "/dev/null"}, "/dev/null", pipes);
    close(pipes.err[1]);
    descriptor_ = pipes.err[0];
    while (err_.find(sign) == std::string::npos)
        if (!drain(descriptor_, err_)) {
            interrupt();
            throw std::runtime_error("the program ended early: " + err_);
        }
}

Background::~Background() { interrupt(); }

int Background::interrupt() {
    if (child_ == 0) return -1;
    kill(child_, SIGINT);
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    pollfd end{descriptor_, POLLIN, 0};
    while (true) {
        if (Clock::now() > deadline) kill(child_, SIGKILL);
        if (poll(&end, 1, 100) > 0 && !drain(descriptor_, err_)) break;
    }
    close(descriptor_);
    int status = 0;
    waitpid(std::exchange(child_, 0), &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

ScratchFolder::ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "scoria-test-XXXXXX").string();
    require(mkdtemp(pattern.data()) != nullptr, "no scratch folder");
    path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace scoria::test
