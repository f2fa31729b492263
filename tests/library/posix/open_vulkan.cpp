#define VK_NO_PROTOTYPES
#include "vulkan_host.h"

#include <dlfcn.h>

PFN_vkGetInstanceProcAddr scoria::test::open_vulkan() {
    void* const library = ::dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(::dlsym(library, "vkGetInstanceProcAddr"))
                   : nullptr;
}
