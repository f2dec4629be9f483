import type { Domain } from '../../api/domain/domain.ts'
import * as address from './address.ts'
import { applyRules, type Added } from './apply.ts'
import { audio } from './audio.ts'
import * as character from './character.ts'
import * as clock from './clock.ts'
import * as controller from './controller.ts'
import * as cpu from './cpu.ts'
import * as device from './device.ts'
import * as disk from './disk.ts'
import { emulator } from './emulator.ts'
import * as feature from './feature.ts'
import * as firmware from './firmware.ts'
import * as graphics from './graphics.ts'
import * as identity from './identity.ts'
import * as input from './input.ts'
import * as networkInterface from './interface.ts'
import * as iothread from './iothread.ts'
import * as iommu from './iommu.ts'
import * as lifecycle from './lifecycle.ts'
import { memballoon } from './memballoon.ts'
import * as memory from './memory.ts'
import * as numa from './numa.ts'
import * as numatune from './numatune.ts'
import * as os from './os.ts'
import * as pci from './pci.ts'
import { portForwards } from './port-forward.ts'
import type { Context, Rule } from './rule.ts'
import * as seclabel from './seclabel.ts'
import { spaprAddress } from './spapr-vio.ts'
import { interfaceTap } from './tap.ts'
import * as usb from './usb.ts'
import * as vcpu from './vcpu.ts'
import * as video from './video.ts'
import { virtioSerialAddress } from './virtio-serial.ts'
import * as watchdog from './watchdog.ts'

/** All rules, in libvirt's order: a rule reads what earlier rules filled in. */
export const rules: readonly Rule[] = [
  identity.uuid,
  identity.name,
  identity.generationId,
  os.architecture,
  os.machine,
  os.boot,
  emulator,
  lifecycle.onPoweroff,
  lifecycle.onReboot,
  lifecycle.onCrash,
  clock.clock,
  clock.clockAdjustment,
  vcpu.vcpuCount,
  numatune.numatuneMemory,
  numatune.numatuneMode,
  numatune.numatuneNodeMode,
  vcpu.vcpuPlacement,
  iothread.iothreadCount,
  iothread.iothreadIds,
  memory.memoryUnit,
  memory.currentMemoryUnit,
  memory.memory,
  memory.currentMemory,
  feature.featureState,
  feature.asyncTeardown,
  feature.hypervMode,
  firmware.firmware,
  firmware.legacyFirmware,
  firmware.loaderFormat,
  firmware.loaderType,
  firmware.nvram,
  cpu.cpuModel,
  cpu.cpuMatch,
  cpu.cpuCheck,
  cpu.cpuMigratable,
  cpu.cpuTopology,
  cpu.cpuFeaturePolicy,
  numa.hotplugCell,
  numa.numaCellId,
  numa.numaCpus,
  numa.numaDistance,
  seclabel.seclabelModel,
  seclabel.seclabelRelabel,
  seclabel.sourceRelabel,

  // Properties of devices, before other devices are derived from them.
  disk.diskType,
  disk.diskDevice,
  disk.diskBus,
  disk.diskDriver,
  disk.diskReadonly,
  disk.diskSnapshot,
  disk.nvmeManaged,
  disk.diskSource,
  disk.diskAddress,
  controller.controllerType,
  controller.usbCompanion,
  controller.controllerIndex,
  // libvirt adds these as early, before the controllers that a machine always has.
  controller.hostdevController,
  character.characterType,
  character.consoleType,
  device.filesystemType,
  device.filesystemDriver,
  device.sharedMemory,
  device.filesystemAccess,
  device.hostdevManaged,
  device.redirdevBus,
  device.redirdevChannel,
  device.vsockModel,
  device.vsockCid,
  device.rngSource,
  device.mdevDisplay,
  device.soundStreams,
  device.memoryAccess,
  device.pstorePath,
  device.tpmDevice,
  device.tpmModel,
  device.tpmVersion,
  device.panicModel,
  device.shmemSize,
  device.shmemMsi,
  watchdog.watchdogAction,
  identity.macAddress,
  identity.virtualPort,
  interfaceTap,
  networkInterface.interfaceType,
  networkInterface.interfaceBackend,
  networkInterface.interfaceModel,
  networkInterface.interfaceMode,
  networkInterface.vhostuserMode,
  networkInterface.addressFamily,
  portForwards,

  // Devices that the machine always has. The PS/2 mouse is added before `inputBus` gives the user's mice a bus.
  input.ps2Inputs,
  input.inputBus,
  iommu.largeIommu,
  iommu.interruptRemapping,
  iommu.splitIoapic,
  controller.usbController,
  controller.sataController,
  controller.pciRoot,
  memballoon,
  watchdog.q35Watchdog,
  audio,

  // Values and devices that depend on other devices.
  character.consoleSerial,
  character.serialPort,
  character.serialTarget,
  character.consolePort,
  character.tcpProtocol,
  character.socketMode,
  graphics.privateScreen,
  graphics.graphicsListen,
  graphics.graphicsPort,
  video.implicitVideo,
  video.videoModel,
  video.videoMemory,
  video.videoHeads,
  video.videoPrimary,
  device.hostdevAddress,
  controller.diskController,
  controller.virtioSerialController,
  device.ccidAddress,
  controller.smartcardController,
  controller.fullHostdevController,
  controller.usbModel,
  controller.scsiModel,

  // Addresses.
  virtioSerialAddress,
  spaprAddress,
  pci.pciControllers,
  pci.pciAddresses,
  pci.hotPlugPort,
  controller.pciChip,
  controller.pciTarget,
  controller.expanderBusNumber,
  device.memorySlot,
  usb.usbHubs,
  usb.usbAddresses,
  address.addressParts,
  address.hostAddressParts,
]

/**
 * Fills in exactly what libvirt itself would when it defines this domain, and what the rules with `isOurs` add.
 * Existing values, their spelling and order are unchanged; new devices are added after existing ones.
 * @returns the domain with its defaults, and what each rule added; `addedPaths` converts that to paths
 */
export const fillDefaults = (domain: Domain, context: Context): { readonly domain: Domain; readonly added: Added } =>
  applyRules(rules, domain.devices ? domain : { ...domain, devices: {} }, context)
