#include "numeric/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace sim::numeric {
namespace {

thread_local bool insideBody = false;

struct Loop {
    const std::function<void(size_t)> &body;
    const size_t count;
    std::atomic<size_t> next{0};
    size_t helpers = 0;  // pool threads at work on it; guarded by the pool's mutex
    std::mutex errorMutex{};
    std::exception_ptr error{};

    void work() {
        insideBody = true;
        for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
            try {
                body(i);
            } catch (...) {
                next = count;
                const std::lock_guard<std::mutex> lock(errorMutex);
                if (!error) error = std::current_exception();
            }
        }
        insideBody = false;
    }
};

class Pool {
public:
    // Never destroyed: streams may still be computing while the process runs its exit handlers.
    static Pool &instance() {
        static Pool *pool = new Pool;
        return *pool;
    }

    void run(Loop &loop) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            loops_.push_back(&loop);
        }
        wake_.notify_all();
        loop.work();
        std::unique_lock<std::mutex> lock(mutex_);
        loops_.erase(std::find(loops_.begin(), loops_.end(), &loop));
        idle_.wait(lock, [&] { return loop.helpers == 0; });
    }

private:
    Pool() {
        for (size_t i = 1; i < parallelWidth(); ++i) std::thread([this] { serve(); }).detach();
    }

    Loop *pick() {
        for (Loop *loop : loops_) {
            if (loop->next.load() < loop->count) return loop;
        }
        return nullptr;
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            Loop *loop = nullptr;
            wake_.wait(lock, [&] { return (loop = pick()) != nullptr; });
            ++loop->helpers;
            lock.unlock();
            loop->work();
            lock.lock();
            if (--loop->helpers == 0) idle_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable idle_;
    std::deque<Loop *> loops_;
};

}  // namespace

size_t parallelWidth() {
    static const size_t width = std::max(1U, std::thread::hardware_concurrency());
    return width;
}

void parallelFor(size_t count, const std::function<void(size_t)> &body) {
    if (insideBody || count <= 1 || parallelWidth() == 1) {
        for (size_t i = 0; i < count; ++i) body(i);
        return;
    }
    Loop loop{body, count};
    Pool::instance().run(loop);
    if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace sim::numeric
