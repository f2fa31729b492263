#define VK_NO_PROTOTYPES
#include "vulkan_host.h"

#include <windows.h>

PFN_vkGetInstanceProcAddr scoria::test::open_vulkan() {
    const HMODULE library = ::LoadLibraryW(L"vulkan-1.dll");
    return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(
                         reinterpret_cast<void*>(::GetProcAddress(library, "vkGetInstanceProcAddr")))
                   : nullptr;
}
