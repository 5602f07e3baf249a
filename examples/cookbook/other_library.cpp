/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of another library, in C++. The library decodes an image on a thread of its own and calls
 * back. A promise of ferry's stands for it: the copy behind the promise starts when the library has
 * called back, and fails with the library's words if it could not. If nobody wants the result any
 * more, the promise's future is cancelled, and the library is told.
 */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ferry/ferry.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace
{

/* The other library: it knows nothing of ferry. */
class decoder
{
  public:
    using callback = std::function<void(const std::string &problem)>;

    void start(unsigned char *pixels, std::size_t count, bool is_broken, callback done)
    {
        thread_ = std::thread([=] {
            if (!is_broken && !is_stopped_)
                std::memset(pixels, 200, count);
            done(is_stopped_ ? "stopped" : is_broken ? "the image is cut short" : "");
        });
    }
    void stop()
    {
        is_stopped_ = true;
    }
    ~decoder()
    {
        if (thread_.joinable())
            thread_.join();
    }

  private:
    std::atomic<bool> is_stopped_{false};
    std::thread thread_;
};

constexpr std::size_t image_bytes = 1 << 20;

/* The future resolves when the library has called back. The engine holds `image` until then. */
ferry::future decode(ferry::engine &engine, decoder &library, const ferry::buffer &image,
                     bool is_broken)
{
    auto begin = [&library, image, is_broken](ferry::promise ends) {
        auto shared = std::make_shared<ferry::promise>(std::move(ends)); /* functions are copied */
        library.start(static_cast<unsigned char *>(image.data()), image.size_bytes(), is_broken,
                      [shared](const std::string &problem) {
                          shared->resolve(problem.empty() ? FERRY_OK : FERRY_E_FAILED,
                                          problem.c_str());
                      });
    };
    auto cancel = [&library] { library.stop(); };
    return engine.call_async(begin, cancel, ferry::options().writes(image).label("decode"));
}

/* Returns what became of the copy of the decoded image. */
std::string decode_and_copy(ferry::engine &engine, bool is_broken)
{
    ferry::buffer image(engine.device("host:0"), image_bytes);
    ferry::buffer target(engine.device("host:1"), image_bytes);
    decoder library;
    (void)decode(engine, library, image, is_broken);
    ferry::result<void> copied = engine.copy(target, image).outcome(); /* waits for the library */
    if (!copied)
        return copied.error().cause_message();
    auto pixels = static_cast<const unsigned char *>(target.data());
    return "the last pixel is " + std::to_string(pixels[image_bytes - 1]);
}

} // namespace

int main()
{
    ferry::engine engine = ferry::engine::try_make().value();
    std::string good = decode_and_copy(engine, false), bad = decode_and_copy(engine, true);
    std::printf("%s; %s\n", good.c_str(), bad.c_str());
    return good == "the last pixel is 200" && bad == "the image is cut short" ? 0 : 1;
}
