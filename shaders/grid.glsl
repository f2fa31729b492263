// Undoes the folding of grids (fold_grid in platform/vulkan/hazards.h): a dispatch of n workgroups may run
// as x * y * z >= n of them. Kernels return when group_index() is past their last workgroup.
#ifndef SCORIA_GRID_GLSL
#define SCORIA_GRID_GLSL

uint group_index() {
    return (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

#endif
