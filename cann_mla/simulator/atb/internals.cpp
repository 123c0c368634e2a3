// Internals of ATB that its own tests use: atb::Config, which libatb.so exports, and the log of the library below it
// (libmki.so). Their headers are not public ones; programs that include them link with these.
#include "core/product.hpp"

#define EXPORTED __attribute__((visibility("default")))

namespace atb {

// The caller's object is larger than this; nothing in it is used here.
class EXPORTED Config {
   public:
    Config();
    ~Config();
    bool Is910B() const;
};

Config::Config() = default;
Config::~Config() = default;

// True for Atlas A3 too.
bool Config::Is910B() const { return sim::product() != sim::Product::A950; }

}  // namespace atb

namespace Mki {

// Above the highest level, so that nobody ever makes a LogStream: the simulator reports in its own way.
enum class LogLevel { None = 6 };

class EXPORTED LogCore {
   public:
    static LogCore &Instance();
    LogLevel GetLogLevel() const;
};

LogCore &LogCore::Instance() {
    static LogCore instance;
    return instance;
}

LogLevel LogCore::GetLogLevel() const { return LogLevel::None; }

class EXPORTED LogStream {
   public:
    LogStream(const char *file, int line, const char *function, LogLevel level);
    ~LogStream();
};

LogStream::LogStream(const char *, int, const char *, LogLevel) {}
LogStream::~LogStream() = default;

}  // namespace Mki
