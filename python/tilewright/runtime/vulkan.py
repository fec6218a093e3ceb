# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compute shaders on a Vulkan device: a card's, or, where there is none, a driver that runs them on the CPU, such as Mesa's lavapipe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from tilewright.errors import TargetError

_VISIBLE = 2 | 4
"""Memory that the host sees, and that needs no flushing."""
_WORD_BYTES = 4
"""Of the words in which shaders read and write buffers."""


class Shader:
    """A compute shader on the first device of this machine.

    Raises (the constructor):
        TargetError: There is no Vulkan here, or the device does not compute with f64.
    """

    def __init__(self, binary: bytes, entry: str, buffers: int, *, doubles: bool = False) -> None:
        """Makes it of SPIR-V with `buffers` storage buffers in descriptor set 0; `doubles` says that it computes with f64."""
        self._device = _device()
        if doubles and not self._device.doubles:
            raise TargetError(f"{self._device.name} computes no f64", expected="a Vulkan device with shaderFloat64")
        vk, device = self._device.vk, self._device.handle
        bindings = [
            vk.VkDescriptorSetLayoutBinding(
                binding=number,
                descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                descriptorCount=1,
                stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            )
            for number in range(buffers)
        ]
        self._set_layout = vk.vkCreateDescriptorSetLayout(
            device, vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings), None
        )
        self._layout = vk.vkCreatePipelineLayout(
            device, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[self._set_layout]), None
        )
        module = vk.vkCreateShaderModule(device, vk.VkShaderModuleCreateInfo(codeSize=len(binary), pCode=binary), None)
        stage = vk.VkPipelineShaderStageCreateInfo(stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName=entry)
        about = vk.VkComputePipelineCreateInfo(
            stage=stage, layout=self._layout, basePipelineHandle=vk.VK_NULL_HANDLE, basePipelineIndex=-1
        )
        pipelines = vk.vkCreateComputePipelines(device, vk.VK_NULL_HANDLE, 1, about, None)
        self._pipeline = pipelines[0] if hasattr(pipelines, "__len__") else pipelines
        vk.vkDestroyShaderModule(device, module, None)

    def __call__(self, groups: tuple[int, int, int], arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Runs it on contiguous arrays, one a buffer; the last one is read back."""
        vk, device = self._device.vk, self._device.handle
        sizes = [max(-(-array.nbytes // _WORD_BYTES), 1) * _WORD_BYTES for array in arrays]
        buffers = [self._device.buffer(size) for size in sizes]
        pool = None
        try:
            for (_, memory), array in zip(buffers, arrays, strict=True):
                if array.nbytes:
                    mapped = vk.vkMapMemory(device, memory, 0, array.nbytes, 0)
                    mapped[: array.nbytes] = array.tobytes()
                    vk.vkUnmapMemory(device, memory)
            size = vk.VkDescriptorPoolSize(type=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptorCount=len(buffers))
            pool = vk.vkCreateDescriptorPool(device, vk.VkDescriptorPoolCreateInfo(maxSets=1, pPoolSizes=[size]), None)
            self._run(groups, buffers, sizes, pool)
            self._read_back(buffers[-1][1], arrays[-1])
        finally:
            if pool is not None:
                vk.vkDestroyDescriptorPool(device, pool, None)
            for buffer, memory in buffers:
                vk.vkDestroyBuffer(device, buffer, None)
                vk.vkFreeMemory(device, memory, None)

    def _run(
        self,
        groups: tuple[int, int, int],
        buffers: Sequence[tuple[Any, Any]],
        sizes: Sequence[int],
        pool: Any,  # noqa: ANN401 - a handle of the library's
    ) -> None:
        vk, device = self._device.vk, self._device.handle
        (descriptors,) = vk.vkAllocateDescriptorSets(
            device, vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[self._set_layout])
        )
        writes = [
            vk.VkWriteDescriptorSet(
                dstSet=descriptors,
                dstBinding=number,
                descriptorCount=1,
                descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                pBufferInfo=[vk.VkDescriptorBufferInfo(buffer=buffer, offset=0, range=size)],
            )
            for number, ((buffer, _), size) in enumerate(zip(buffers, sizes, strict=True))
        ]
        vk.vkUpdateDescriptorSets(device, len(writes), writes, 0, None)
        commands_pool = vk.vkCreateCommandPool(
            device, vk.VkCommandPoolCreateInfo(queueFamilyIndex=self._device.family), None
        )
        try:
            (commands,) = vk.vkAllocateCommandBuffers(
                device,
                vk.VkCommandBufferAllocateInfo(
                    commandPool=commands_pool, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
                ),
            )
            vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo())
            vk.vkCmdBindPipeline(commands, vk.VK_PIPELINE_BIND_POINT_COMPUTE, self._pipeline)
            vk.vkCmdBindDescriptorSets(
                commands, vk.VK_PIPELINE_BIND_POINT_COMPUTE, self._layout, 0, 1, [descriptors], 0, None
            )
            vk.vkCmdDispatch(commands, *groups)
            vk.vkEndCommandBuffer(commands)
            vk.vkQueueSubmit(self._device.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands])], None)
            vk.vkQueueWaitIdle(self._device.queue)
        finally:
            vk.vkDestroyCommandPool(device, commands_pool, None)

    def _read_back(self, memory: Any, array: np.ndarray[Any, Any]) -> None:  # noqa: ANN401 - a handle of the library's
        vk, device = self._device.vk, self._device.handle
        mapped = vk.vkMapMemory(device, memory, 0, array.nbytes, 0)
        array[...] = np.frombuffer(bytes(mapped[: array.nbytes]), array.dtype).reshape(array.shape)
        vk.vkUnmapMemory(device, memory)


class _Device:
    """The first device with a queue for shaders."""

    def __init__(self, vk: ModuleType) -> None:
        self.vk: Any = vk
        about = self.vk.VkApplicationInfo(apiVersion=self.vk.VK_MAKE_VERSION(1, 1, 0))
        instance = self.vk.vkCreateInstance(self.vk.VkInstanceCreateInfo(pApplicationInfo=about), None)
        physical = self.vk.vkEnumeratePhysicalDevices(instance)[0]
        self.name = str(self.vk.vkGetPhysicalDeviceProperties(physical).deviceName)
        families = self.vk.vkGetPhysicalDeviceQueueFamilyProperties(physical)
        self.family = next(
            number for number, each in enumerate(families) if each.queueFlags & self.vk.VK_QUEUE_COMPUTE_BIT
        )
        queue = self.vk.VkDeviceQueueCreateInfo(queueFamilyIndex=self.family, pQueuePriorities=[1.0])
        self.doubles = bool(self.vk.vkGetPhysicalDeviceFeatures(physical).shaderFloat64)
        wanted = self.vk.VkPhysicalDeviceFeatures(shaderFloat64=self.doubles)
        about_device = self.vk.VkDeviceCreateInfo(pQueueCreateInfos=[queue], pEnabledFeatures=wanted)
        self.handle = self.vk.vkCreateDevice(physical, about_device, None)
        self.queue = self.vk.vkGetDeviceQueue(self.handle, self.family, 0)
        memory = self.vk.vkGetPhysicalDeviceMemoryProperties(physical)
        self._memory = next(
            number
            for number in range(memory.memoryTypeCount)
            if memory.memoryTypes[number].propertyFlags & _VISIBLE == _VISIBLE
        )

    def buffer(self, size: int) -> tuple[Any, Any]:
        """A storage buffer, and its memory."""
        vk = self.vk
        about = vk.VkBufferCreateInfo(
            size=size, usage=vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, sharingMode=vk.VK_SHARING_MODE_EXCLUSIVE
        )
        buffer = vk.vkCreateBuffer(self.handle, about, None)
        needs = vk.vkGetBufferMemoryRequirements(self.handle, buffer)
        memory = vk.vkAllocateMemory(
            self.handle, vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=self._memory), None
        )
        vk.vkBindBufferMemory(self.handle, buffer, memory, 0)
        return buffer, memory


@cache
def _device() -> _Device:
    """The device, opened once.

    Raises:
        TargetError: There is none, or the package that speaks to it is missing.
    """
    try:
        import vulkan
    except (ImportError, OSError) as e:
        raise TargetError(
            f"no Vulkan: {e}", expected="the package vulkan, and a driver", remedy="make setup-gpu installs both"
        ) from None
    try:
        return _Device(vulkan)
    except (vulkan.VkError, vulkan.ProcedureNotFoundError, IndexError, StopIteration) as e:
        raise TargetError(
            f"no Vulkan device: {type(e).__name__}",
            expected="a driver of a card, or Mesa's lavapipe",
            remedy="make setup-gpu installs lavapipe",
        ) from None


def device_name() -> str:
    """The name of the device on which shaders run.

    Raises:
        TargetError: There is none.
    """
    return _device().name
